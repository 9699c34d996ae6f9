//! Where tables have cells. Content of a table outside its cells is moved before the table, which
//! changes the order of the rows unless the table has none yet.

use crate::rows::Declined;

/// More tables in one another are declined.
const TABLES_MAX: usize = 100;

/// The open tables outside templates and foreign content.
#[derive(Default)]
pub struct Tables {
    open: Vec<Table>,
}

struct Table {
    /// The number of rows that are before the table.
    rows: usize,
    inside: Inside,
    /// The open row group.
    group: Group,
}

/// The innermost open part of a table.
#[derive(Clone, Copy, PartialEq)]
enum Inside {
    Table,
    Row,
    Cell(Cell),
}

#[derive(Clone, Copy, PartialEq)]
enum Cell {
    Data,
    Header,
    Caption,
}

#[derive(Clone, Copy, PartialEq)]
enum Group {
    None,
    Body,
    Head,
    Foot,
}

impl Tables {
    /// Whether content is moved before a table.
    pub fn is_outside_cells(&self) -> bool {
        self.open.last().is_some_and(|table| !matches!(table.inside, Inside::Cell(_)))
    }

    /// Add a row after others. Declines if it is moved before one of them.
    pub fn place_row(&mut self, rows: usize) -> Result<(), Declined> {
        if self.is_outside_cells()
            && let Some(table) = self.open.last_mut()
        {
            if table.rows != rows {
                return Err(Declined);
            }
            table.rows += 1;
        }
        Ok(())
    }

    /// A start tag of a table or a part of it.
    pub fn start_tag(&mut self, name: &[u8], rows: usize) -> Result<(), Declined> {
        if name == b"table" {
            if self.is_outside_cells() {
                self.open.pop();
            }
            if self.open.len() == TABLES_MAX {
                return Err(Declined);
            }
            self.open.push(Table { rows, inside: Inside::Table, group: Group::None });
        } else if let Some(table) = self.open.last_mut() {
            match name {
                b"td" => table.open_in_group(Inside::Cell(Cell::Data)),
                b"th" => table.open_in_group(Inside::Cell(Cell::Header)),
                b"tr" => table.open_in_group(Inside::Row),
                b"caption" => table.open_in(Group::None, Inside::Cell(Cell::Caption)),
                _ => table.open_in(group(name), Inside::Table),
            }
        }
        Ok(())
    }

    /// An end tag of a table or a part of it, which is ignored if that is not open.
    pub fn end_tag(&mut self, name: &[u8]) {
        let Some(table) = self.open.last_mut() else { return };
        let cell = |cell: Cell| table.inside == Inside::Cell(cell);
        match name {
            b"table" => {
                self.open.pop();
            }
            b"td" if cell(Cell::Data) => table.inside = Inside::Row,
            b"th" if cell(Cell::Header) => table.inside = Inside::Row,
            b"caption" if cell(Cell::Caption) => table.inside = Inside::Table,
            b"tr" if !cell(Cell::Caption) => table.inside = Inside::Table,
            b"tbody" | b"thead" | b"tfoot" if table.group == group(name) => {
                table.open_in(Group::None, Inside::Table);
            }
            _ => {}
        }
    }
}

impl Table {
    fn open_in(&mut self, group: Group, inside: Inside) {
        self.group = group;
        self.inside = inside;
    }

    /// Open a part of a row group, which is a body unless another one is open.
    fn open_in_group(&mut self, inside: Inside) {
        if self.group == Group::None {
            self.group = Group::Body;
        }
        self.inside = inside;
    }
}

fn group(name: &[u8]) -> Group {
    match name {
        b"tbody" => Group::Body,
        b"thead" => Group::Head,
        b"tfoot" => Group::Foot,
        _ => Group::None,
    }
}

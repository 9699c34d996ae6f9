"""The logic of a store on a database with named statements, independent of its SQL."""

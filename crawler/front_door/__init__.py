"""The front door of every server of this program: its sockets, connections and checks."""

"""The socket: its methods, its wire and its clients. All but `methods` is standard library only, for `memd query`."""

"""The commands, each in the module of its name. A new one is a new file here, which registers itself (`frame.main`)."""

"""Settings: frozen dataclasses whose defaults are the authors' (or ours, where a comment says so).

No file here imports torch, so the command line reads its defaults from the same place as the library and
`geco --help` stays light.
"""

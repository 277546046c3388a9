"""Which blows can strike a program without striking a real machine?

A deterministic world: a clock and a heap of events, a network, hosts, disks, faults and a trace. One seed
decides everything. It hosts machines by their shape and knows nothing of ours; it reads no clock, and no
chance but the `random.Random` handed in.
"""

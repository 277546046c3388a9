"""What do attackers do that run the real protocol? Rings of mixed members, and programs that want them broken.

The scenarios that start them are `simnet.scenarios.fallen_places`, `ring_attacks` and `store_attacks`.
"""

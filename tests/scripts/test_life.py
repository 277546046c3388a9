"""Does the tool that counts the modules of a URL's life see the whole of it?"""

from scripts.life import OURS, measured

STEPS = {
    "seeded, found and handed out": "crawler.frontier",
    "walked to its holders": "herodotus.crawl.links.walks",
    "leased": "herodotus.crawl.stewards.ring_steward",
    "read for its links": "crawler.core.links",
    "made a record of": "herodotus.core.warc",
    "stored": "herodotus.store.committer",
    "copied": "herodotus.copies.push_queue",
    "taken in elsewhere": "herodotus.copies.fetch_queue",
    "read": "herodotus.portal.replay",
}


def test_each_step_of_a_life_belongs_to_it_and_what_an_idle_ring_does_does_not() -> None:
    own, idle = measured()
    assert {step: module for step, module in STEPS.items() if module not in own} == {}
    assert {name.partition(".")[0] for name in own} == set(OURS)
    assert "dht.core.gossip" in idle
    assert len(own) <= 90

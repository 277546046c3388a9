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
    "taken in elsewhere": "herodotus.copies.parcels",
    "read": "herodotus.portal.replay",
}


def test_each_step_of_a_life_is_entered_and_none_of_them_by_an_idle_ring() -> None:
    idle, life = measured()
    missing = {step: module for step, module in STEPS.items() if module not in life or module in idle}
    assert missing == {}
    assert {name.partition(".")[0] for name in life | idle} == set(OURS)
    assert "dht.core.gossip" in idle

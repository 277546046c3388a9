"""Does the tool that counts the modules of a URL's life see the whole of it?"""

import json
import subprocess
import sys

import pytest

from scripts.life import OURS

_TOLD = """
import json
from scripts.life import measured
print(json.dumps([sorted(names) for names in measured()]))
"""

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


@pytest.mark.timeout(400)  # 47 s of processor time, several times that beside other tests
def test_each_step_of_a_life_belongs_to_it_and_what_an_idle_ring_does_does_not() -> None:
    # In a process of its own: what other tests left in caches would not be entered, or be entered again.
    told = subprocess.run([sys.executable, "-c", _TOLD], capture_output=True, check=True, text=True)
    own, idle = json.loads(told.stdout.splitlines()[-1])
    assert {step: module for step, module in STEPS.items() if module not in own} == {}
    assert {name.partition(".")[0] for name in own} == set(OURS)
    assert "dht.core.gossip" in idle
    assert len(own) <= 90

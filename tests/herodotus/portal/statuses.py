"""A status whose every number differs, so that no two can be mistaken for each other."""

from herodotus.core.status import CrawlStatus, PeerStatus, RingStatus, StoreStatus, TrafficStatus

STATUS = PeerStatus(
    peer_id="evzt-oa44",
    nickname="Halikarnassos",
    version="0.1.0",
    network="test",
    network_id="1e92efc560cfbcc8",
    http="http://127.0.0.1:5484",
    pid=42,
    started="2026-11-18T12:00:00+00:00",
    uptime_s=60,
    ring=RingStatus(
        slot=0,
        members=20,
        ideal=True,
        arcs=(("00" * 20, "0f" * 20),),
        address="192.0.2.7:4484",
        reachability="nobody asked",
        nodes=(),
        unwell={},
        traffic=TrafficStatus(),
    ),
    crawl=CrawlStatus(
        known=5678,
        due=1,
        fetched=2,
        unchanged=3,
        failed=4,
        handed_over=61,
        taken_over=62,
        held_back=63,
        left_over=64,
    ),
    store=StoreStatus(captures=1234, bytes=99),
    copies={"1": 1234},
)

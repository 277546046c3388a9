"""Which parts make a peer, and how do they live and end together? The composition root.

Everything concrete is built here and hangs from one task group, so that stopping the peer is one cancellation and
no error is lost. The life: lock the home, open the parts, say "ready", wait for a signal, drain, leave.
"""

import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

import anyio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import herodotus
from crawler.core.politeness import HostSteward, LeaseTerms, measured_delay_max_s
from dht.core.arcs import Arcs
from dht.core.holders import Table
from dht.core.ids import PeerKey
from dht.core.places import Standing
from dht.core.reader import Member
from dht.udp import ANY_IPV4
from herodotus.copies.copies import Copies
from herodotus.copies.departure import Leaving, LeavingPorts
from herodotus.copies.doors import DoorRules, Doors, keeping, kept_quotas, kept_tenure, size_of
from herodotus.copies.failures import Failures
from herodotus.copies.hand_over import facts_of
from herodotus.copies.notices import NoticeBoard, NoticeParts
from herodotus.copies.shared_state import Meter, View
from herodotus.copies.shared_state import Parts as CopiesParts
from herodotus.core.alarms import alarms
from herodotus.core.budgets import Spending
from herodotus.core.captures import Deposit
from herodotus.core.charter import Charter, founded_s, shown_network_id
from herodotus.core.connections import NO_BOUND, Use
from herodotus.core.copies.tenure import Tenure
from herodotus.core.doors import Door, Quotas, passage_in
from herodotus.core.orders import (
    CrawlControl,
    Drain,
    HandOver,
    NoticeOrder,
    Order,
    OrderReport,
    Pause,
    RebuildWords,
    Remove,
    Resume,
    Say,
    Search,
    Stay,
    Why,
)
from herodotus.core.ports import Lane
from herodotus.core.relays import WANTED, closed_sentence
from herodotus.core.search.cover import PLACE_BYTES, indexed_by
from herodotus.core.sentences import said
from herodotus.core.settings.fields import HostPort
from herodotus.core.settings.sections import Settings
from herodotus.core.signatures import signed
from herodotus.core.status import PeerStatus, ReadersStatus, SearchStatus
from herodotus.core.whereabouts import has_family
from herodotus.crawl.daily import DailyCrawl, DailyParts
from herodotus.crawl.gear import ROBOT, CrawlOrder, lookout_of, standing_order, territory_of, url_rules
from herodotus.crawl.helpers import DeskParts, HelpedFetcher, Helping, HelpingParts, WorkDesk
from herodotus.crawl.links.exchange import Exchange, ExchangeParts
from herodotus.crawl.page_saves import HomeSaves
from herodotus.crawl.stewards import RingSteward, StewardParts
from herodotus.crawl.stewards.ask_queue import ASK_SERVICE
from herodotus.crawl.stewards.office import key_of_subject, subject_of
from herodotus.home.folder import Home
from herodotus.home.identity import PeerId, names_of_key, peer_id, shown_peer_id
from herodotus.home.log_tail import log_tail
from herodotus.peers.budget import Budget, BudgetedFetcher, moment_by
from herodotus.peers.calls import Services
from herodotus.peers.invited import charter_services
from herodotus.peers.membership import MembershipParts, RingMembership, place_rules_of
from herodotus.peers.net.pacing import LinePacer
from herodotus.peers.net.port import CallPort, CallPortParts
from herodotus.peers.net.rooms import Rooms
from herodotus.peers.observation import Observation
from herodotus.peers.reach import ReachWatch
from herodotus.peers.rests import Rests
from herodotus.peers.standings import standings_now
from herodotus.portal.answer_cache import Front
from herodotus.portal.api.search import reported
from herodotus.portal.archive_pages import ArchivePages
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.client_limits import is_outside
from herodotus.portal.handlers import Handlers, PortalRooms
from herodotus.portal.holders import RingDirections
from herodotus.portal.metrics import PortalFigures
from herodotus.portal.operator_rule import OperatorRule, operator_token
from herodotus.portal.other_holders import Elsewhere
from herodotus.portal.word_search import WordSearch
from herodotus.search.follower import Follower, FollowerParts
from herodotus.search.looking import WordLook
from herodotus.search.ring_search import RingParts, RingSearch
from herodotus.search.services import SearchServices, ServiceParts
from herodotus.store import HomeArchive, archive_settings, free_bytes_at, id_of_facts
from herodotus.world import World

LOG_READING = Lane("reading the log", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerParts:
    """What a peer is made from; the home is locked by the caller for as long as the peer lives."""

    home: Home
    charter: Charter
    settings: Settings
    key: Ed25519PrivateKey = field(repr=False)
    previous_key: Ed25519PrivateKey | None = field(default=None, repr=False)
    restored: tuple[str, ...] = ()
    """Files of the home that were lost or damaged, and put back at this start."""
    begins_network: bool = False
    """The network was made with this home, a moment ago."""

    @property
    def peer_id(self) -> PeerId:
        return peer_id(self.key.public_key())


class Peer:
    def __init__(self, parts: PeerParts, world: World) -> None:
        self._parts, self._world = parts, world
        self._started_s = world.unix_s()
        self._budget = Budget(parts.settings.budget, parts.home.traffic, lambda: moment_by(world))
        http = parts.settings.http
        files = archive_settings(parts.settings, parts.charter, parts.peer_id)
        self._archive = HomeArchive(parts.home, world, files, is_surveyed=http.survey)
        self._search = self._make_search()
        shelf = Shelf(self._archive.catalogue, world)
        self._membership = RingMembership(
            MembershipParts(
                home=parts.home,
                charter=parts.charter,
                settings=parts.settings,
                world=world,
                key=parts.key,
                previous_key=parts.previous_key,
            )
        )
        own_key = parts.key.public_key().public_bytes_raw()
        self._observation = Observation(parts.home.observation, world, own_key)
        self._reach = ReachWatch(self._knock, parts.settings.calls.knock_s)
        one_house = parts.charter.allow_private_addresses
        self._line_rooms = Rooms(NO_BOUND if one_house else parts.settings.budget.connections_max)
        self._pacer = LinePacer(parts.settings.budget.traffic.up_bytes_per_s)
        self._call_port = CallPort(
            CallPortParts(
                rooms=self._line_rooms,
                key=parts.key,
                rules=self._membership.rules,
                settings=parts.settings.calls,
                relay=parts.settings.relay,
                relays_wanted=min(WANTED, parts.settings.discovery.dial_backs),
                is_one_machine=parts.charter.allow_private_addresses,
                wall_clock=world.unix_s,
                chance=world.chance,
                dial=world.dial,
                knock=world.knock,
                pacer=self._pacer,
                urgent=(ASK_SERVICE,),
                on_proven=self._observation.met,
                on_called=self._reach.called,
            )
        )
        order = standing_order(parts.charter, parts.settings, self._line_rooms)
        self._lookout = lookout_of(order, world, wall_clock=world.unix_s)
        self._steward = self._make_steward(order, own_key)
        directions = RingDirections(lambda: self._membership.node, own_key, parts.charter.copies)
        quota_bytes = int(parts.settings.copies.quota_mb * 1e6)
        self._quotas = Quotas(quota_bytes, self._proven_bytes, kept_quotas(parts.home.quotas))
        self._tenure = Tenure(kept_tenure(parts.home.tenure))
        self._restored = parts.restored
        self._copies = Copies(
            self._copies_parts(own_key),
            parts.settings.copies,
            ring=lambda: self._membership.node,
            archive_opened=self._archive.wait_open,
            backlog=parts.home.copies,
            failures=Failures(parts.home.failed_holders, world.unix_s),
        )
        self._notices = self._make_notices()
        self._exchange = self._make_exchange()
        self._desk = self._make_desk(order)
        self._helping = self._make_helping(order)
        self._daily = self._make_daily(order)
        self._leaving = self._make_leaving()
        self._rests = Rests(
            parts.settings.budget,
            self._budget,
            is_paused=lambda: self._daily.pause_left_s > 0 and not self._leaving.is_leaving,
            on_change=self._daily.budget_changed,
        )
        relay_of = partial(world.relay, room=None if one_house else self._line_rooms.room(Use.READING))
        self._relay = relay_of()
        elsewhere = Elsewhere(
            directions,
            self._relay,
            world,
            now=anyio.current_time,
            catalogue=self._archive.catalogue,
        )
        name = shown_peer_id(parts.peer_id)
        saves = self._own_saves(order)
        pages = ArchivePages(
            shelf,
            has_banner=http.banner,
            elsewhere=elsewhere,
            peer=name,
            takes_saves=saves is not None,
        )
        self._search_services = SearchServices(
            ServiceParts(
                words=lambda: self._search.words,
                indexed=self._indexed,
                is_member=lambda peer: peer in self._copies.parts.view.contacts,
                catalogue=self._archive.catalogue,
                workers=world,
            )
        )
        self._ring_search = RingSearch(
            RingParts(
                words=lambda: self._search.words,
                indexed=self._indexed,
                sight=lambda: self._copies.parts.view,
                calls=lambda: self._call_port.calls,
                shelf=shelf,
                settings=parts.settings.search,
                unix_s=world.unix_s,
            )
        )
        self._words = WordSearch(
            shelf=shelf,
            ring=self._ring_search,
            look=WordLook(lambda: self._search.words, world.unix_s),
            now_s=lambda: int(world.unix_s()),
            secret=hashlib.sha256(b"search tokens" + parts.key.private_bytes_raw()).digest(),
        )
        self._operator = OperatorRule(has_public_name=bool(http.public_url))
        self._rooms = PortalRooms(
            shelf=shelf,
            status=self.status,
            figures=self._figures,
            log=self._log_tail,
            directions=directions,
            relay=self._relay,
            relay_of=relay_of,
            elsewhere=elsewhere,
            workers=world,
            operator=self._operator,
            perform=self.perform,
            saves=saves,
            peer=name,
            drift_days=http.drift_days,
            words=self._words,
        )
        self._handlers = Handlers(
            self.status,
            pages,
            public_url=http.public_url,
            replay_name=http.replay_name,
            rooms=self._rooms.all,
            is_secret=self._operator.is_secret,
        )
        front = Front(lambda: shelf.stamp, world.unix_s)
        self._portal = world.serve(http, self._handlers, front, self._line_to)

    def _make_search(self) -> Follower:
        home = self._parts.home
        return Follower(
            FollowerParts(
                folder=home.words,
                settings=self._parts.settings.search,
                changes=self._archive.wait_changes,
                workers=self._world,
                free_bytes=partial(free_bytes_at, home.path),
                unix_s=self._world.unix_s,
                wanted=self._words_wanted,
                imports_spread=self._parts.charter.imports_spread,
            )
        )

    async def _search_status(self) -> SearchStatus:
        services = self._search_services
        return replace(
            await self._search.status(),
            answered=services.answered,
            refused=services.refused,
            disbelieved=self._ring_search.disbelieved,
        )

    def _words_wanted(self) -> Arcs | None:
        """The keys whose words should be in the index."""
        view = self._copies.parts.view
        return indexed_by(view.table, PeerKey(view.me), self._parts.settings.search.copies)

    def _indexed(self) -> Arcs:
        """The keys whose words are in the index."""
        return self._copies.parts.view.share.coarse(PLACE_BYTES) & self._search.answered

    def _line_to(self, reader: str) -> LinePacer | None:
        one_house = self._parts.charter.allow_private_addresses
        return self._pacer if is_outside(reader, is_one_house=one_house) else None

    def _is_relayed(self, peer: bytes) -> bool:
        return self._call_port.streams.ways.is_relayed(peer)

    async def _knock(self, member: Member) -> None:
        await self._call_port.knock(member)

    @property
    def _network(self) -> bytes:
        return self._parts.charter.network_id()[:8]

    def _own_saves(self, order: CrawlOrder) -> HomeSaves | None:
        """Where the network's charter lets readers ask for pages."""
        charter, settings = self._parts.charter, self._parts.settings
        if not charter.save_endpoint:
            return None
        return HomeSaves(
            self._archive.opened_store,
            charter,
            settings,
            self._world,
            order,
            wall_clock=self._world.unix_s,
            steward=self._steward,
        )

    async def _log_tail(self) -> list[str]:
        return await self._world.work(lambda: log_tail(self._parts.home.log), LOG_READING)

    def _figures(self) -> PortalFigures:
        return PortalFigures(
            answered=dict(self._handlers.answered),
            connections_refused=self._portal.refused,
            slow_readers_left=self._portal.left,
            malformed=self._portal.malformed,
            rationed=self._rooms.rationed,
            saves_asked=self._rooms.saves_asked,
            answers_disbelieved=self._rooms.disbelieved,
        )

    def _copies_parts(self, own_key: bytes) -> CopiesParts:
        return CopiesParts(
            view=View(me=own_key, table=Table((), self._membership.rules.holders)),
            holdings=lambda: self._archive.holdings,
            calls=lambda: self._call_port.calls,
            sign=self._sign,
            is_relayed=self._is_relayed,
            now=self._world.elapsed_s,
            random=self._world.chance,
            workers=self._world,
            upload=Meter(partial(self._budget.spend, Spending.COPIES_OUT)),
            download=Meter(partial(self._budget.spend, Spending.COPIES_IN)),
            on_received=self._note_received,
            doors=Doors(
                DoorRules(
                    wall_s=self._world.unix_s,
                    spreads_imports=self._parts.charter.imports_spread,
                    network=self._network,
                    steward_key=lambda host: key_of_subject(subject_of(host)),
                    quotas=self._quotas,
                    standings=self._standings,
                    tenure=self._tenure,
                    age_days=self._observation.age_days,
                    founded_s=founded_s(self._parts.charter),
                    sure_after_s=self._parts.settings.copies.compare_s,
                )
            ),
            standings=standings_now(
                self._standings,
                self._membership.rules.places,
                self._world.unix_s,
                self._observation.age_days,
            ),
        )

    def _sign(self, deposit: Deposit) -> Deposit:
        vouched = signed(self._parts.key, deposit)
        if vouched is not deposit and passage_in(deposit).first is Door.CRAWLED:
            self._quotas.brought_own(size_of(deposit))
        return vouched

    def _proven_bytes(self, signer: bytes) -> int:
        """Of ours, by the daily proofs."""
        copies = self._copies.parts
        return copies.states.proven_bytes(signer, copies.now())

    def _standings(self) -> Mapping[PeerKey, Standing]:
        return self._membership.node.standings()

    def _make_notices(self) -> NoticeBoard:
        parts, rules = self._parts, place_rules_of(self._parts.charter)

        def places() -> dict[bytes, bytes]:
            return {peer: standing.place for peer, standing in self._standings().items()}

        def is_of_age(peer: bytes) -> bool:
            probation = rules.probation_on(rules.day_of(self._world.unix_s()))
            return self._observation.age_days(peer) >= probation

        return NoticeBoard(
            self._copies.parts,
            NoticeParts(
                state=parts.home.state,
                key=parts.key,
                network=parts.charter.network_id(),
                settings=parts.settings.removals,
                clocks=self._world,
                places=places,
                is_of_age=is_of_age,
                names_of=names_of_key,
            ),
            every_s=parts.settings.copies.compare_s,
        )

    def _note_received(self, deposit: Deposit, signer: bytes) -> None:
        self._exchange.came(deposit, signer)

    def _make_exchange(self) -> Exchange:
        parts, charter = self._parts, self._parts.charter
        return Exchange(
            ExchangeParts(
                folder=parts.home.exchange,
                open_rows=self._world.rows,
                settings=parts.settings.links,
                holders=self._membership.rules.holders,
                id_check=self._membership.rules.id_check,
                rules=url_rules(charter),
                territory=territory_of(charter),
                fetches_all=charter.fetch_by == "all",
                day_length_s=charter.day_length_s,
                wall_clock=self._world.unix_s,
                random=self._world.chance,
                cross_fetch_share=parts.settings.copies.cross_fetch_share,
                accuse=self._copies.parts.suspects.note,
                reaches_most=lambda: has_family(self._world.outgoing_hosts(), of=ANY_IPV4),
            )
        )

    def _make_steward(self, order: CrawlOrder, own_key: bytes) -> RingSteward:
        """It outlives failed crawls, and serves others while no crawl runs."""
        policy = replace(order.politeness, delay_max_s=measured_delay_max_s(order.politeness))
        steward = StewardParts(
            own_key=own_key,
            terms=LeaseTerms.of(policy),
            fetcher=self._lookout,
            product_token=ROBOT,
            wall_clock=self._world.unix_s,
            slept_s=lambda: self._world.elapsed_s() - self._world.steady_s(),
            ring=lambda: self._membership.node,
            calls=lambda: self._call_port.calls,
            may_visit_private=order.allow_private_addresses,
            network=self._network,
            sign=self._parts.key.sign,
            own_queue=self._pacer.own_queue,
            opted_out=order.opted_out,
            begins_ring=self._parts.begins_network,
        )
        return RingSteward(steward, HostSteward(policy))

    def _make_daily(self, order: CrawlOrder) -> DailyCrawl:
        parts = self._parts
        return DailyCrawl(
            DailyParts(
                home=parts.home,
                order=order,
                archive=self._archive,
                make_steward=lambda _fetcher, sink: self._steward.attach(sink),
                world=self._world,
                wall_clock=self._world.unix_s,
                owner=self._exchange,
                drain_s=parts.settings.lifecycle.drain_s,
                within=lambda fetcher: HelpedFetcher(BudgetedFetcher(fetcher, self._budget), self._desk),
                closed_s=lambda: self._budget.closed_s(Spending.CRAWL),
                window_of=self._steward.window_of,
                keep_own=self._desk.keep_own,
            )
        )

    def _make_desk(self, order: CrawlOrder) -> WorkDesk:
        return WorkDesk(
            DeskParts(
                file=self._parts.home.helpers,
                chance=self._world.chance,
                wall_clock=self._world.unix_s,
                window_of=self._steward.window_of,
                owns=lambda peer: any(one.peer == peer for one in self._membership.node.contacts()),
                rules=order.rules,
                today=lambda: self._daily.today,
                is_on=self._parts.settings.crawl.helpers,
            )
        )

    def _make_helping(self, order: CrawlOrder) -> Helping:
        return Helping(
            HelpingParts(
                fetcher=BudgetedFetcher(self._lookout, self._budget),
                steward=self._steward,
                chance=self._world.chance,
                rules=order.rules,
                territory=order.territory,
                content=order.content,
                opted_out=order.opted_out,
                network=self._network,
                copies=self._parts.charter.copies,
                wall_clock=self._world.unix_s,
                rests=self._why_no_help,
                charge=partial(self._budget.charge, Spending.COPIES_OUT),
                today=lambda: order.day(self._world.unix_s()),
                is_on=self._parts.settings.crawl.helps,
            )
        )

    def _why_no_help(self) -> str:
        if self._daily.is_paused:
            return "paused"
        return ", ".join(self._budget.statistics().closed_by) if self._budget.closed_s(Spending.CRAWL) else ""

    def _make_leaving(self) -> Leaving:
        return Leaving(
            LeavingPorts(
                home=self._parts.home,
                pause=lambda: self._daily.perform(Pause()),
                resume=lambda: self._daily.perform(Resume()),
                others=self._others,
                links_waiting=lambda: self._exchange.waiting,
                holds=lambda: None if self._archive.holdings is None else self._archive.holdings.captures,
                hand_over=self._copies.hand_over,
            )
        )

    @property
    def is_index_damaged(self) -> bool:
        store = self._archive.store
        return store is not None and store.archive.is_index_damaged

    @property
    def left(self) -> anyio.Event:
        """Set when the peer has handed over what it holds and may end."""
        return self._leaving.left

    async def perform(self, order: Order, say: Say) -> OrderReport:
        """Performs a command's order that came through the order socket."""
        if isinstance(order, CrawlControl):
            report = await self._daily.perform(order)
            self._rests.look()
            return report
        if isinstance(order, RebuildWords):
            self._search.rebuild()
            return OrderReport(facts={})
        if isinstance(order, Stay):
            return OrderReport(facts={"was_draining": await self._leaving.stay()})
        if isinstance(order, Drain | HandOver):
            self._archive.opened_store()
            return await (
                self._drain(order, say) if isinstance(order, Drain) else self._hand_over(order, say)
            )
        if isinstance(order, Search):
            return await reported(self._words, order)
        report = await self._archive.perform(order, say)
        if isinstance(order, Why) and report.facts is not None:
            holders = await self._copies.told_by_holders(id_of_facts(report.facts))
            return replace(report, facts={**report.facts, "holders": holders})
        if isinstance(order, Remove | NoticeOrder):
            self._notices.hurry()
        return report

    async def _drain(self, order: Drain, say: Say) -> OrderReport:
        await self._leaving.begin()
        self._rests.look()
        done = await self._leaving.follow(say, order.wait_s)
        return OrderReport(facts=facts_of(done))

    async def _hand_over(self, order: HandOver, say: Say) -> OrderReport:
        done = await self._leaving.only_hand_over(say, order.wait_s)
        return OrderReport(facts=facts_of(done))

    def _others(self) -> int:
        """Members of the ring besides this peer."""
        own_key = self._parts.key.public_key().public_bytes_raw()
        return len({one.peer for one in self._membership.node.positions()} - {own_key})

    def read_token(self) -> None:
        """Of the operator; made if it is gone. Raises StorageFailure."""
        self._operator.knows(operator_token(self._parts.home, self._world.random_bytes))

    def was_put_back(self, names: Iterable[str]) -> None:
        """Files of the home, from their second copies."""
        self._restored = (*self._restored, *(name for name in names if name not in self._restored))

    async def status(self) -> PeerStatus:
        parts = self._parts
        store = await self._archive.status()
        ring, calls = self._membership.status(), self._call_port.status()
        is_heard = ring.heard_s is not None and ring.heard_s < ring.silent_after_s
        if self._membership.node.is_closed and is_heard:
            relaying = calls.relaying
            who = closed_sentence(
                ring.reachability,
                len(relaying.relays),
                relaying.member_in_s,
                is_member=relaying.is_member,
            )
            ring = replace(ring, reachability=who)
        found = PeerStatus(
            peer_id=shown_peer_id(parts.peer_id),
            nickname=parts.settings.operator.nickname,
            version=herodotus.__version__,
            network=parts.charter.name,
            network_id=shown_network_id(parts.charter.network_id()),
            http=self.http,
            pid=self._world.process_id,
            started=datetime.fromtimestamp(self._started_s, UTC).isoformat(timespec="seconds"),
            uptime_s=int(self._world.unix_s() - self._started_s),
            ring=replace(ring, ideal=ring.ideal and self._reach.is_proven, uncallable=self._reach.status()),
            observation=self._observation.status(),
            calls=calls,
            readers=ReadersStatus(
                connections=self._portal.connections, refused=self._portal.refused, crowd=self._portal.crowd
            ),
            links=self._exchange.status(),
            crawl=self._daily.status(),
            helpers=self._desk.status(),
            helping=self._helping.status(),
            stewards=self._steward.status(),
            store=store,
            search=await self._search_status(),
            copies={str(copies): count for copies, count in self._copies.histogram.items()},
            copying=replace(
                self._copies.status(store.bytes / max(1, store.captures)),
                cross_fetches=self._exchange.cross_fetches(),
            ),
            notices=self._notices.status(),
            budget=replace(self._budget.statistics(), connections=self._line_rooms.connections.status()),
            leaving=self._leaving.status(),
            restored=self._restored,
        )
        return replace(found, said=said(found), alarms=alarms(found))

    def _carried(self) -> tuple[int, int]:
        """Bytes in and out of all connections to sites, other peers and readers."""
        readers_in, readers_out = self._portal.carried
        return self._line_rooms.bytes_in + readers_in, self._line_rooms.bytes_out + readers_out

    @property
    def http(self) -> str:
        """An address that works on this machine; a wildcard listens everywhere, but nobody can dial it."""
        endpoint = self._portal.endpoint
        local = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(endpoint.host, endpoint.host)  # noqa: S104  # read, not bound
        return f"http://{HostPort(host=local, port=endpoint.port)}"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """All parts are open inside; leaving drains them in the opposite order."""
        drain_s = self._parts.settings.lifecycle.drain_s
        with self._portal.claimed():  # first: a peer that cannot serve must not have told the ring of itself
            self.read_token()
            async with (
                self._archive.opened(),
                self._search.running(),
                self._membership.opened(),
                self._observation.kept(self._membership.node),
                self._budget.kept(self._membership.traffic, self._carried),
                self._rests.kept(self._world.watch_supplies),
                keeping(self._quotas, self._parts.home.quotas, self._tenure, self._parts.home.tenure),
                self._calls_opened(),
                self._relay.opened(),
                self._rooms.opened(),
                self._daily.opened(),
                self._leaving.opened(),
                self._portal.serving(drain_s),
            ):
                yield

    @asynccontextmanager
    async def _calls_opened(self) -> AsyncIterator[None]:
        """What calls others is opened between the two: what answers them must be there before they come."""
        ring = self._membership.node
        charter = charter_services(self._parts.charter)
        own = (
            self._steward.services,
            self._copies.services(),
            self._notices.services(),
            self._desk.services,
            self._search_services.services,
            charter,
        )
        async with (
            self._call_port.calling(ring, self._membership.port) as calls,
            self._exchange.opened(ring, calls, self._daily) as links,
            self._lookout,
            self._steward.running(),
            self._desk.kept(),
            self._call_port.answering(ring, self._membership.port, Services.of(links, *own)),
            self._helping.running(ring, calls),
            self._reach.running(ring),
            self._copies.opened(),
            self._notices.running(),
        ):
            yield

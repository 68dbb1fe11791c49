"""The viewer in a real browser, headless: Debian's Chromium, driven by playwright."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from agentgym_py.agents import ExpertAgent, RandomAgent
from agentgym_py.cli import main
from agentgym_py.cli.server_options import listen, server_config
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.collection.branching import collect_with_branches
from agentgym_py.feedback import verdicts
from agentgym_py.policy import Policy
from agentgym_py.trajectory import store
from agentgym_py.viewer.index import Index
from agentgym_py.viewer.source import Source

playwright = pytest.importorskip("playwright.sync_api", reason="the extra `dev` has playwright")
pytest.importorskip("fastapi")
playwright.expect.set_options(timeout=60_000)  # of a busy machine
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
PICTURES = os.environ.get("AGENTGYM_SCREENSHOTS")
TOKEN = "a-token-for-tests"
COMMAND = "import sys; from agentgym_py.cli import main; sys.exit(main())"
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 800}


class Seen:
    """A page, what its console said, and what it asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("dialog", lambda dialog: self.said.append(f"dialog: {dialog.message}"))

    def picture(self, name: str, **more: Any) -> None:
        """Keep what can be seen in $AGENTGYM_SCREENSHOTS, if it is set."""
        if PICTURES:
            self.page.screenshot(path=Path(PICTURES, f"{name}.png"), **more)

    def rows(self, number: int) -> None:
        """Wait until the list has that many rows."""
        playwright.expect(self.page.locator("ol.list li")).to_have_count(number)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One for all tests."""
    with playwright.sync_playwright() as running:
        made = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def seen(browser: Any) -> Iterator[Seen]:
    """A fresh page; a silent console is asserted."""
    context = browser.new_context(viewport=WIDE)
    context.set_default_timeout(60_000)
    made = Seen(context.new_page())
    yield made
    assert made.said == []
    context.close()


@pytest.fixture
def address(run: Path) -> Iterator[str]:
    """Where the run is served."""
    with hosted(run) as made:
        yield made


@contextmanager
def hosted(folder: Path) -> Iterator[str]:
    """Serve a folder in a thread of this process, which has loaded torch; return the address."""
    import uvicorn

    from agentgym_py.viewer.server import Viewer, app_of

    with closing(Index(Source.from_paths([folder]))) as index, listen("127.0.0.1", 0) as listener:
        server = uvicorn.Server(server_config(app_of(Viewer(index, Policy.load), TOKEN)))
        thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/#token={TOKEN}"
        finally:
            server.should_exit = True
            thread.join(10)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """What `agentgym view` prints, while it serves a folder; it ends by Ctrl-C."""
    words = [sys.executable, "-c", COMMAND, "view", str(folder)]
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server,
        ExitStack() as end,
    ):
        end.callback(server.kill)  # a failure would wait for it forever
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.send_signal(signal.SIGINT)
        said = server.communicate(timeout=60)[1]
    assert (server.returncode, said) == (130, "\nstopped; judgements and continued episodes are kept\n")


def test_a_continue_that_fails_leaves_the_episode(seen: Seen, run: Path) -> None:
    """The world is not installed: the message says what to do, and the steps stay."""
    path, page = run / "rounds" / "00" / "trajectories.jsonl", seen.page
    episodes = [replace(t, provenance=replace(t.provenance, env_id="AgentNowhere-v0")) for t in store.read(path)]
    store.write(path, episodes[:1])
    with served(path) as address:
        page.goto(address)
        seen.rows(1)
        page.click("ol.list a")
        page.wait_for_selector("ol.steps > li.here")
        page.keyboard.press("c")
        playwright.expect(page.locator("#said")).to_contain_text("name its source: --env FILE.py")
        playwright.expect(page.locator("ol.steps > li.here")).to_be_visible()
        assert "#/e/" in page.url
    (refused,) = seen.said  # the browser's own line on the request
    assert "404" in refused
    seen.said.clear()


def test_a_run_in_the_browser(seen: Seen, run: Path) -> None:
    """Open, filter, step, look at tokens and the plan, compare, judge, go on as a person, as a model, and keep it."""
    with served(run) as address:
        look_at_everything(seen, address, run)


def look_at_everything(seen: Seen, address: str, run: Path) -> None:
    """Do all that a person can do with a run."""
    page, keyboard = seen.page, seen.page.keyboard
    page.goto(address)
    seen.rows(19)
    assert "token" not in page.url
    seen.picture("list")

    page.select_option("[name=agent]", "Agent_v0")
    seen.rows(6)
    page.select_option("[name=agent]", "")
    page.select_option("[name=outcome]", "success")
    seen.rows(12)
    page.select_option("[name=outcome]", "")
    page.get_by_label("Kind of failure").select_option(label="no valid action (7)")  # the only kind
    seen.rows(7)
    page.get_by_label("Kind of failure").select_option("")
    keyboard.press("Escape")
    keyboard.press("/")
    keyboard.type("alert observ")
    seen.rows(1)
    page.fill("[name=text]", "")
    page.select_option("[name=agent]", "Agent_v0")
    seen.rows(6)
    seen.picture("filtered")

    keyboard.press("Escape")
    keyboard.press("j")
    keyboard.press("j")
    keyboard.press("Enter")
    page.wait_for_selector("ol.steps > li.here")
    keyboard.press("j")
    assert page.get_attribute("li.here", "aria-label") == "Step 2"
    keyboard.press("k")
    keyboard.press("e")
    page.wait_for_selector("aside ol li")
    assert "search[" in page.inner_text("aside")
    seen.picture("episode")
    keyboard.press("t")
    page.wait_for_selector(".tok.sampled")
    assert page.get_attribute("#toggle-tokens", "aria-pressed") == "true"
    page.hover("li.here .tok.sampled")
    assert re.search(r"logprob -?\d+\.\d+, p \d\.\d+, id \d+", page.inner_text("li.here .tokens + .soft"))
    sampled = page.eval_on_selector_all("li.here .tok.sampled", "all => all.map(each => each.textContent).join('')")
    first = list(store.read(run / "rounds" / "01" / "trajectories.jsonl"))[1].steps[0]
    assert sampled.replace("<|end|>", "") == first.reply or "\ufffd" in sampled
    seen.picture("tokens")
    keyboard.press("t")
    page.wait_for_selector(".tok", state="detached")

    keyboard.press("u")
    page.wait_for_selector("#thumb1[aria-pressed=true]")
    assert list(verdicts.read(run).thumbs.values()) == [1]
    keyboard.press("4")
    page.wait_for_selector("#stars4[aria-pressed=true]")
    assert list(verdicts.read(run).stars.values()) == [4]
    keyboard.press("r")
    page.wait_for_selector("li.here form textarea")
    page.fill("li.here form textarea", "Action: search[<b>it</b>]")
    page.click("li.here form button[type=submit]")
    page.wait_for_selector("li.here .better")
    assert "search[<b>it</b>]" in page.inner_text("li.here .better")
    assert list(verdicts.read(run).replies.values()) == ["Action: search[<b>it</b>]"]
    keyboard.press("v")
    page.wait_for_selector(".two")
    seen.picture("two")
    keyboard.press("b")
    page.wait_for_selector("#prefer-1[aria-pressed=true]")
    assert len(verdicts.read(run).preferences) == 1
    keyboard.press("Escape")
    page.wait_for_selector("#continue")

    keyboard.press("j")
    keyboard.press("c")
    page.wait_for_selector("#action")
    keyboard.type("click[nothing like that]")
    keyboard.press("Enter")
    page.wait_for_selector("ol.steps > li:nth-child(2) .chip.bad")
    seen.picture("continue")
    page.click("#model-step")
    page.wait_for_selector("ol.steps > li:nth-child(4)", timeout=90_000)
    page.click("text=Expert: to the end")
    page.wait_for_selector("text=It is over")
    assert page.inner_text("#main .good") == "success"
    page.click("#keep")
    page.wait_for_selector("#toggle-tokens")
    (kept,) = store.read(run / "continued.jsonl")
    assert kept.provenance.agent == "person and rounds/01/checkpoint and expert"
    assert {url.split("/")[2] for url in seen.asked if not url.startswith("data:")} == {address.split("/")[2]}


@pytest.fixture(scope="module")
def evolved(tmp_path_factory: pytest.TempPathFactory, tiny_policy: Any) -> Path:
    """What `agentgym evolve` leaves: Agent_v0 and two short rounds of GRPO."""
    pytest.importorskip("accelerate")
    folder = tmp_path_factory.mktemp("evolved")
    tiny_policy.save(folder / "model")
    words = [
        "evolve", "--env", "shop", "--model", str(folder / "model"), "--trainer", "grpo", "--preset", "smoke",
        "--rounds", "2", "--max_new_tokens", "8", "--env_kwargs.max_steps", "4", "--valid_tasks", "12",
        "--threads", "1", "--out", str(folder / "run"),
    ]  # fmt: skip
    assert main(words) == 0
    return folder / "run"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_report_of_a_run(seen: Seen, evolved: Path, scheme: str, size: dict[str, int]) -> None:
    """Charts with words for who does not see them; tables and examples by keyboard; it fits, and asks for nothing."""
    page, keyboard = seen.page, seen.page.keyboard
    page.set_viewport_size(size)
    page.emulate_media(color_scheme=scheme)
    page.goto((evolved / "report.html").as_uri())
    for title in ("Success", "Reward", "Use of the explored episodes", "Steps per episode", "Invalid actions",
                  "Rewards of the explored episodes", "Ends of episodes on the valid split"):  # fmt: skip
        figure = page.locator("figure", has=page.locator(f"figcaption:text-is('{title}')"))
        assert figure.locator("svg").bounding_box()["width"] > 300, title
        assert len(figure.locator("[role=img]").get_attribute("aria-label")) > 20, title
    seen.picture(f"report-{scheme}-{'wide' if size is WIDE else 'phone'}", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    table = page.locator("figure details").first
    table.locator("summary").focus()
    keyboard.press("Enter")
    playwright.expect(table.locator("table")).to_be_visible()
    link = page.locator("#failures ~ p a").first
    link.focus()
    keyboard.press("Enter")
    shown = page.locator(link.get_attribute("href"))
    playwright.expect(shown).to_be_visible()
    assert shown.locator("xpath=..").locator("summary").first.inner_text().startswith("failure")
    text, back = page.evaluate("""["svg text", "body"].map(each => getComputedStyle(document.querySelector(each)))
        .map((style, body) => body ? style.backgroundColor : style.fill)""")
    light, dark = sorted(sum(map(int, re.findall(r"\d+", each)[:3])) for each in (text, back))[::-1]
    assert light - dark > 250
    assert [url for url in seen.asked if not url.startswith("data:")] == [page.url.split("#")[0]]
    cut = page.evaluate("""() => {
        document.querySelectorAll("details").forEach(each => { each.open = true; });
        return [...document.querySelectorAll(".wide")].filter(each => each.scrollWidth > each.clientWidth + 1).length;
    }""")
    assert cut == 0


def test_a_run_of_rounds_in_the_viewer(seen: Seen, evolved: Path) -> None:
    """What evolve left: filter by round, open, step, tokens, judge, and the round's own model continues from there."""
    page, keyboard = seen.page, seen.page.keyboard
    with hosted(evolved) as at:
        page.goto(at)
        page.wait_for_selector("ol.list li")
        page.select_option("[name=round]", "2")
        page.select_option("[name=split]", "valid")
        seen.rows(12)
        page.click("ol.list a")
        page.wait_for_selector("ol.steps > li.here")
        keyboard.press("t")
        page.wait_for_selector(".tok.sampled")
        keyboard.press("d")
        page.wait_for_selector("#thumb-1[aria-pressed=true]")
        assert list(verdicts.read(evolved).thumbs.values()) == [-1]
        keyboard.press("t")
        keyboard.press("c")
        page.wait_for_selector("#action")
        assert "rounds/02/checkpoint" in page.inner_text("#main")
        page.click("#model-step")
        page.wait_for_selector("ol.steps > li:nth-child(2)", timeout=90_000)
        seen.picture("evolved-continue")
        assert {url.split("/")[2] for url in seen.asked if not url.startswith("data:")} == {at.split("/")[2]}


def test_what_is_looked_for_stands_in_the_address(seen: Seen, address: str, browser: Any) -> None:
    """Filters, search and order survive a reload and an episode, go back and forth, and can be shared."""
    page, expect = seen.page, playwright.expect
    page.goto(address)
    seen.rows(19)
    first = page.url
    page.select_option("[name=outcome]", "success")
    seen.rows(12)
    page.select_option("[name=order]", "longest")
    page.fill("[name=min_steps]", "1")
    page.wait_for_timeout(400)
    page.locator("[name=text]").press_sequentially("search", delay=250)
    page.wait_for_timeout(400)
    assert page.url == first + "?text=search&outcome=success&order=longest&min_steps=1"
    listed = page.inner_text("ol.list")
    seen.picture("filters-in-the-address")

    def as_it_was() -> None:
        expect(page.locator("[name=outcome]")).to_have_value("success")
        expect(page.locator("[name=order]")).to_have_value("longest")
        expect(page.locator("[name=min_steps]")).to_have_value("1")
        expect(page.locator("[name=text]")).to_have_value("search")
        expect(page.locator("ol.list")).to_have_text(re.compile(".+"), use_inner_text=True)
        assert page.inner_text("ol.list") == listed

    page.reload()
    page.wait_for_selector("ol.list li")
    as_it_was()
    for back in (page.go_back, lambda: page.keyboard.press("Escape"), lambda: page.click("text=List")):
        page.click("ol.list a")
        page.wait_for_selector("ol.steps > li.here")
        back()
        page.wait_for_selector("ol.list li")
        as_it_was()
    shared = page.url
    other = browser.new_context(viewport=WIDE)
    try:
        guest = other.new_page()
        guest.goto(address)  # whose token it is
        guest.wait_for_selector("ol.list li")
        guest.goto(shared)
        expect(guest.locator("[name=text]")).to_have_value("search")
        guest.wait_for_timeout(500)
        assert guest.inner_text("ol.list") == listed
    finally:
        other.close()
    page.click("#home")
    seen.rows(19)
    assert page.url == first and page.input_value("[name=text]") == ""


@pytest.mark.parametrize("exported", [False, True])
def test_next_follows_the_list_after_a_reload(seen: Seen, run: Path, tmp_path: Path, exported: bool) -> None:
    """An episode's address has the filters and the order, also that of its tree and comparison."""
    page, keyboard, expect = seen.page, seen.page.keyboard, playwright.expect
    with ExitStack() as end:
        target = tmp_path / "page.html"
        assert not exported or main(["view", str(run), "--export", str(target)]) == 0
        page.goto(target.as_uri() if exported else end.enter_context(hosted(run)))
        seen.rows(19)
        page.select_option("[name=agent]", "Agent_v0")
        page.select_option("[name=order]", "longest")
        seen.rows(6)
        page.wait_for_timeout(300)
        listed = page.eval_on_selector_all("ol.list a", "all => all.map(each => each.hash)")
        numbers = [address.split("?")[0] for address in listed]
        page.click("ol.list li:nth-child(4) a")
        page.wait_for_selector("ol.steps > li.here")
        page.reload()
        for key, place in (("ArrowRight", 4), ("ArrowRight", 5), ("ArrowLeft", 4), ("ArrowLeft", 3)):
            page.wait_for_selector("ol.steps > li.here")
            keyboard.press(key)
            page.wait_for_function("start => location.hash.startsWith(start)", arg=f"{numbers[place]}/")
        for key, view in (("f", "#/tree/"), ("Escape", "#/e/"), ("v", "#/two/"), ("Escape", "#/e/")):
            keyboard.press(key)
            page.wait_for_function("start => location.hash.startsWith(start)", arg=view)
            page.wait_for_selector("h1")
            page.reload()
            page.wait_for_selector("h1")
        page.click("text=List")
        seen.rows(6)
        expect(page.locator("[name=order]")).to_have_value("longest")
        page.evaluate("address => { location.hash = address; }", listed[-1])
        page.wait_for_selector("ol.steps > li.here")
        keyboard.press("ArrowRight")
        expect(page.locator("#said")).to_have_text("This is the last one.")
        page.evaluate("location.hash = location.hash.replace('agent=Agent_v0', 'agent=nobody')")
        expect(page.locator("#said")).to_be_hidden()
        page.wait_for_selector("ol.steps > li.here")
        keyboard.press("ArrowRight")
        expect(page.locator("#said")).to_contain_text("not in the list")


@pytest.mark.parametrize("view", ["e/abc", "e/1.5", "tree/abc", "two/1/abc", "two/1"])
def test_an_address_of_no_episode(seen: Seen, address: str, view: str) -> None:
    """A short sentence, and a link to all episodes."""
    seen.page.goto(address)
    seen.rows(19)
    seen.page.evaluate("view => { location.hash = `#/${view}`; }", view)
    playwright.expect(seen.page.locator("[role=alert]")).to_have_text("No such episode.")
    seen.page.click("text=All episodes")
    seen.rows(19)


def test_the_back_button_undoes_one_choice_at_a_time(seen: Seen, address: str) -> None:
    """What is typed in one go is one; forward does it again. What no list knows is left alone."""
    page, expect = seen.page, playwright.expect
    page.goto(address)
    seen.rows(19)
    page.select_option("[name=outcome]", "success")
    seen.rows(12)
    page.locator("[name=text]").press_sequentially("zzz", delay=250)
    seen.rows(0)
    page.go_back()
    seen.rows(12)
    expect(page.locator("[name=text]")).to_have_value("")
    expect(page.locator("[name=outcome]")).to_have_value("success")
    page.go_back()
    seen.rows(19)
    expect(page.locator("[name=outcome]")).to_have_value("")
    page.go_forward()
    seen.rows(12)
    page.evaluate("location.hash = '#/?outcome=success&at=5&__proto__=1&agent='")
    seen.rows(12)


def test_a_message_is_of_its_own_page(seen: Seen, address: str) -> None:
    """The next view takes it away, unless it is about that one."""
    page, keyboard, said = seen.page, seen.page.keyboard, seen.page.locator("#said")
    page.goto(address)
    page.click("ol.list a")
    page.wait_for_selector("ol.steps > li.here")
    keyboard.press("u")
    playwright.expect(said).to_have_text("Noted: good.")
    keyboard.press("Escape")
    page.wait_for_selector("ol.list li")
    playwright.expect(said).to_be_hidden(timeout=1000)
    page.click("ol.list a")
    page.wait_for_selector("ol.steps > li.here")
    keyboard.press("c")
    page.wait_for_selector("#action")
    page.click("text=Expert: to the end")
    page.wait_for_selector("text=It is over")
    page.click("#keep")
    page.wait_for_selector("#toggle-tokens")
    playwright.expect(said).to_have_text(re.compile("^Kept in "))


def test_the_header_is_low_on_a_phone(seen: Seen, address: str) -> None:
    """The count stands in one line, also beside verdicts."""
    page = seen.page
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto(address)
    seen.rows(19)
    page.click("ol.list a")
    page.wait_for_selector("ol.steps > li.here")
    page.keyboard.press("u")
    playwright.expect(page.locator("#state")).to_contain_text("judged")
    page.evaluate("document.getElementById('state').textContent = '4,012 episodes; judged: 2 thumbs, 1 preference'")
    seen.picture("phone-header")
    line = page.evaluate("parseFloat(getComputedStyle(document.getElementById('state')).lineHeight)")
    assert page.locator("#state").bounding_box()["height"] < 1.5 * line
    assert page.locator("header").bounding_box()["height"] < 130


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Episodes of one task: two by chance, forks of them, and an expert's with a long thought and a long page."""
    folder = tmp_path_factory.mktemp("forked")
    collector = Collector(RandomAgent(), PlayConfig(prompt="brief"))
    families = collect_with_branches(collector, jobs_for("maze", "train", [0], 2), 2, 2, first_attempt=2)
    store.write(folder / "random.jsonl", [episode for family in families for episode in family])
    (won,) = Collector(ExpertAgent(), PlayConfig(prompt="brief")).collect_batch(jobs_for("maze", "train", [0]))
    store.write(folder / "expert.jsonl", [won])
    opening, *rest = won.steps
    long = replace(opening, thought="So I go on. " * 200, observation=opening.observation + "\nA wall." * 40)
    store.write(folder / "long.jsonl", [replace(won, id="long", success=False, steps=(long, *rest))])
    return folder


def test_the_tree_of_a_task_by_keyboard(seen: Seen, forked: Path) -> None:
    """From an episode to its tree: branches fold, a step opens its episode, Escape leads back; then values and help."""
    page, keyboard, expect = seen.page, seen.page.keyboard, playwright.expect
    with hosted(forked) as at:
        page.goto(at)
        seen.rows(12)
        page.select_option("[name=agent]", "random")
        seen.rows(10)
        page.click("ol.list li:nth-child(2) a")
        page.wait_for_selector("ol.steps > li.here")
        keyboard.press("f")
        expect(page.locator(".tree .mine:not([aria-expanded]) > .node")).to_have_count(1)
        expect(page.locator(".tree :not([aria-expanded]) > .node > a")).to_have_count(12)
        expect(page.locator(".tree > li > .node .sum")).to_have_text("1 of 12 episodes succeed")
        seen.picture("tree")
        keyboard.press("Home")
        expect(page.locator(".tree > li")).to_be_focused()
        keyboard.press("ArrowLeft")
        expect(page.locator(".tree li:visible")).to_have_count(1)
        keyboard.press("ArrowRight")
        keyboard.press("j")
        target = page.locator(".tree li:focus").get_attribute("data-to")
        keyboard.press("Enter")
        page.wait_for_selector("ol.steps > li.here")
        assert page.url.endswith(str(target))
        page.go_back()
        page.wait_for_selector(".tree")
        keyboard.press("Escape")
        page.wait_for_selector("ol.steps > li.here")

        keyboard.press("e")
        expect(page.locator("svg.curve circle")).to_have_count(page.locator("ol.steps > li").count())
        page.click("aside a")  # the first fault
        expect(page.locator("aside")).to_contain_text(re.compile(r"First fault: step \d+"))
        keyboard.press("?")
        expect(page.locator("dialog dt", has_text="invalid steps")).to_be_visible()
        keyboard.press("Escape")
        seen.picture("values")

        page.goto(at.split("#")[0] + "#/?outcome=failure&min_reward=1")
        seen.rows(1)
        page.click("ol.list a")
        expect(page.locator(".folded")).to_have_count(2)
        expect(page.locator("#main")).to_contain_text("a success needs the whole task")
        page.locator("button.more").first.focus()
        keyboard.press("Enter")
        expect(page.locator(".folded")).to_have_count(1)


def test_text_is_text(seen: Seen, address: str) -> None:
    """An episode full of scripts and images shows them as letters; nothing runs and nothing is asked for."""
    page = seen.page
    page.goto(address)
    page.select_option("[name=split]", "valid")
    seen.rows(1)
    page.click("ol.list a")
    page.wait_for_selector("ol.steps")
    for view in ("t", "e", "t"):
        page.keyboard.press(view)
        page.wait_for_timeout(200)
    assert page.inner_text("ol.steps .text").startswith("<script>window.ran = true;")
    assert page.evaluate("window.ran") is None
    assert page.locator("main img, main script, main b:has-text('x') > *").count() == 0
    page.wait_for_selector("aside .error:has-text('differs on replay')")
    seen.picture("hostile")
    assert not any("/x" in url for url in seen.asked)


def test_answers_that_come_late_change_nothing(seen: Seen, address: str) -> None:
    """Neither an older search replaces a newer one, nor a list the episode that was opened meanwhile."""
    page, late, asked = seen.page, list[Any](), "**/api/episodes?*text=zzz*"
    page.goto(address)
    seen.rows(19)
    page.route(asked, lambda route: late.append(route))
    with page.expect_request(asked):
        page.fill("[name=text]", "zzz")
    page.fill("[name=text]", "alert observ")
    seen.rows(1)
    with page.expect_response(asked):
        late.pop().continue_()
    page.wait_for_timeout(100)
    seen.rows(1)
    with page.expect_request(asked):
        page.fill("[name=text]", "zzz")
    page.click("ol.list a")
    page.wait_for_selector("ol.steps")
    with page.expect_response(asked):
        late.pop().continue_()
    page.wait_for_timeout(100)
    assert page.locator("ol.steps").count() == 1


def test_without_the_token_nothing_is_shown(seen: Seen, address: str) -> None:
    """The page says which address has it."""
    seen.page.goto(address.split("#")[0])
    assert "it has the token" in seen.page.inner_text("[role=alert]")
    assert [each for each in seen.said if "401" not in each] == []
    seen.said.clear()  # the browser itself tells of the 401


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(seen: Seen, address: str, scheme: str) -> None:
    """No view is wider than the screen; in both colour schemes text stands out from what is behind it."""
    page = seen.page
    page.set_viewport_size(PHONE)
    page.emulate_media(color_scheme=scheme)
    page.goto(address)
    seen.rows(19)
    for name, go, shows in (
        ("list", lambda: None, "ol.list li"),
        ("episode", lambda: page.click("ol.list li:nth-child(14) a"), "ol.steps > li.here"),
        ("tokens", lambda: page.click("#toggle-tokens"), ".tok.sampled"),
        ("plan", lambda: page.click("#toggle-plan"), "aside ol li"),
        ("two", lambda: page.click("text=Compare"), ".two"),
        (
            "continue",
            lambda: page.evaluate("location.hash = location.hash.replace(/two.(\\d+).*/, 'on/$1/0')"),
            "#action",
        ),
    ):
        go()
        page.wait_for_selector(shows)
        page.wait_for_timeout(100)
        seen.picture(f"phone-{scheme}-{name}")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], name
    colours = page.evaluate("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
    text, back = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours)
    assert (text < 200 and back > 700) if scheme == "light" else (text > 600 and back < 100)


def test_an_exported_page_needs_nothing(seen: Seen, run: Path, tmp_path: Path) -> None:
    """Opened as a file: the same views without a server, by keyboard, and not one request."""
    target = tmp_path / "page.html"
    words = [sys.executable, "-c", COMMAND, "view", str(run), "--export", str(target)]
    subprocess.run(words, check=True, capture_output=True)
    page, keyboard = seen.page, seen.page.keyboard
    page.goto(target.as_uri())
    seen.rows(19)
    page.select_option("[name=agent]", "Agent_v0")
    seen.rows(6)
    page.fill("[name=text]", "no such word")
    seen.rows(0)
    page.fill("[name=text]", "")
    seen.rows(6)
    page.click("ol.list a")
    page.wait_for_selector("ol.steps")
    keyboard.press("t")
    page.wait_for_selector(".tok.sampled")
    keyboard.press("e")
    page.wait_for_selector("aside ol li")
    assert page.locator("#thumb1, #continue").count() == 0
    seen.picture("export")
    keyboard.press("v")
    page.wait_for_selector(".two")
    assert page.evaluate("window.ran") is None
    assert [url for url in seen.asked if not url.startswith("data:")] == [target.as_uri()]

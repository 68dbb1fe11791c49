// The viewer's front end: four views (list, episode, two side by side, the tree of a task) and continuing from a step.
// Nothing here makes HTML of text: every string of an episode becomes a text node.
"use strict";

// ------------------------------------------------------------------------------------------------------- elements

const $ = (id) => document.getElementById(id);

/** An element with properties (`class`, `onclick`, `aria-…`, …) and children; null children are left out. */
function el(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    const says = name.startsWith("aria-");
    if (value === null || value === undefined || (value === false && !says)) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true && !says ? "" : String(value));
  }
  made.append(...children.flat(9).filter((each) => each !== null && each !== undefined && each !== false));
  return made;
}

const button = (label, onclick, more = {}) => el("button", { type: "button", onclick, ...more }, label);
const text = (value) => el("pre", { class: "text" }, value);
const number = (value, digits = 2) => String(Number(value.toFixed(digits)));
const plural = (count, one) => `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;

/** An element of a drawing, with attributes and children. */
function draw(tag, given, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(given)) made.setAttribute(name, value);
  made.append(...children.flat());
  return made;
}

/** A thumb, drawn: fonts may lack the sign. */
const thumbIcon = (verdict) => draw("svg", { viewBox: "0 0 20 20", "aria-hidden": "true", class: verdict > 0 ? "icon up" : "icon down" },
  draw("path", { d: "M1 9h4v10H1zM6.5 18V9l3.5-7.5c1.8 0 2.6 1.4 2.2 3L11.4 8H17c1.6 0 2.3 1.2 1.9 2.6l-1.8 6.2C16.7 18.2 16 19 14.6 19H9z" }));

/** Fold a long text; a button shows all of it. */
function folding(value, node) {
  const lines = value.split("\n").length;
  if (lines <= 14 && value.length <= 1200) return node;
  const label = lines > 14 ? `Show all ${lines} lines` : `Show all ${value.length.toLocaleString("en")} characters`;
  const box = el("div", { class: "folded" }, node);
  const more = button(label, () => {
    const open = !box.classList.toggle("folded");
    more.textContent = open ? "Show less" : label;
    more.setAttribute("aria-expanded", open);
  }, { class: "more", "aria-expanded": false });
  return [box, more];
}

/** Show a short message. The next view takes it away, unless it is about that one (`stays`). */
function say(words, stays = false) {
  say.stays = stays;
  $("said").textContent = words;
  $("said").hidden = false;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { $("said").hidden = true; }, 5000);
}

// ------------------------------------------------------------------------------------------------- where data is from

const embedded = $("data") ? JSON.parse($("data").textContent) : null;

const server = {
  async call(path, body) {
    const sent = { headers: { Authorization: `Bearer ${sessionStorage.getItem("agentgym-token") ?? ""}` } };
    if (body) {
      sent.method = "POST";
      sent.headers["Content-Type"] = "application/json";
      sent.body = JSON.stringify(body);
    }
    let answer;
    try {
      answer = await fetch(`/api/${path}`, sent);
    } catch {
      throw new Error("the viewer does not answer; is agentgym view still running?");
    }
    const found = await answer.json().catch(() => ({ detail: `status ${answer.status}` }));
    if (answer.ok) return found;
    throw new Error(typeof found.detail === "string" ? found.detail : "the server rejected the request");
  },
  state() { return this.call("state"); },
  list(wanted) { return this.call(`episodes?${new URLSearchParams(wanted)}`); },
  episode(n) { return this.call(`episodes/${n}`); },
  plans(n) { return this.call(`episodes/${n}/plans`); },
  tree(n) { return this.call(`episodes/${n}/tree`); },
  neighbours(n, wanted) { return this.call(`episodes/${n}/neighbours?${new URLSearchParams(wanted)}`); },
  preference(a, b) { return this.call(`preference?first=${a}&second=${b}`); },
};

/** The same questions, answered from the page itself. */
const page = {
  rows() { return embedded.episodes.map((each) => each.row); },
  at(n) {
    const found = embedded.episodes.find((each) => each.row.n === n);
    if (!found) throw new Error(`No episode ${n} in this page.`);
    return found;
  },
  async state() {
    const facets = {};
    for (const name of FACETS) {
      const counts = new Map();
      for (const row of this.rows()) if (row[name] !== null) counts.set(row[name], (counts.get(row[name]) ?? 0) + 1);
      facets[name] = [...counts].sort((a, b) => (a[0] < b[0] ? -1 : 1));
    }
    return { title: embedded.title, note: embedded.note, bytes: [1, 1], episodes: this.rows().length, broken: [], facets,
      models: [], feedback: null };
  },
  /** The rows that fit the filters, in their order. */
  fitting(wanted) {
    const known = (row) => { row.words ??= wordsOf(this.at(row.n).episode); return row.words; };
    const asked = wordsIn(wanted.text ?? "");
    const fits = this.rows().filter((row) =>
      [...FACETS, "outcome"].every((name) => wanted[name] === undefined || String(row[name]) === String(wanted[name]))
      && ["reward", "steps"].every((name) => (wanted[`min_${name}`] === undefined || row[name] >= Number(wanted[`min_${name}`]))
        && (wanted[`max_${name}`] === undefined || row[name] <= Number(wanted[`max_${name}`])))
      && asked.every((word) => known(row).some((each) => each.startsWith(word))));
    const by = { file: () => 0, best: (a, b) => b.reward - a.reward, worst: (a, b) => a.reward - b.reward,
      longest: (a, b) => b.steps - a.steps, shortest: (a, b) => a.steps - b.steps }[wanted.order ?? "file"];
    return fits.sort(by);
  },
  async list(wanted) {
    const [fits, from] = [this.fitting(wanted), Number(wanted.offset ?? 0)];
    return { total: fits.length, rows: fits.slice(from, from + Number(wanted.limit ?? 100)) };
  },
  async neighbours(n, wanted) {
    const fits = this.fitting(wanted);
    const at = fits.findIndex((row) => row.n === n);
    return { listed: at >= 0, previous: fits[at - 1]?.n ?? null, next: fits[at + 1]?.n ?? null };
  },
  async episode(n) {
    const { row, episode } = this.at(n);
    const same = (each) => each.episode.provenance.task_id === episode.provenance.task_id && each.row.env === row.env;
    return { row, episode, siblings: embedded.episodes.filter(same).map((each) => each.row) };
  },
  async plans(n) { return this.at(n).plans; },
  async tree(n) {
    const rows = (await this.episode(n)).siblings;
    const pathOf = (row) => this.at(row.n).episode.steps.map((step) => ({
      key: [step.observation, step.action, step.action_input ?? ""].join("\0"), action: step.action, valid: step.valid, reward: step.reward }));
    return { episodes: rows.map((row) => ({ row, path: pathOf(row) })), left_out: 0 };
  },
};
const FACETS = ["env", "split", "round", "agent", "kind", "difficulty", "failure_kind"];
const source = embedded ? page : server;
const wordsIn = (said) => said.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
const wordsOf = (episode) => [...new Set(wordsIn([episode.provenance.task_id, episode.instruction, episode.final_observation,
  ...episode.steps.flatMap((step) => [step.observation, step.reply])].join(" ")))];

// ------------------------------------------------------------------------------------------------------------ frame

let state = null;
let wanted = {};
let keys = {};
let shown = 0;

async function look() {
  state = await source.state();
  document.title = `${state.title} – agentgym view`;
  $("title").textContent = state.title;
  const [done, total] = state.bytes;
  const share = total > 0 && done < total ? `, indexing: ${Math.floor((100 * done) / total)} %` : "";
  const kinds = { thumbs: "thumb", ratings: "rating", preferences: "preference", replies: "better reply" };
  const counts = Object.entries(kinds).filter(([name]) => state.feedback?.[name]).map(([name, one]) =>
    (state.feedback[name] > 1 && name === "replies" ? `${state.feedback[name]} better replies` : plural(state.feedback[name], one)));
  const said = counts.length ? `; judged: ${counts.join(", ")}` : "";
  $("state").textContent = `${plural(state.episodes, "episode")}${share}${said}${state.note ? `; ${state.note}` : ""}`;
  $("broken").hidden = state.broken.length === 0;
  $("broken").replaceChildren(
    el("summary", {}, `${plural(state.broken.length, "line")} left out`),
    el("ul", {}, state.broken.slice(0, 50).map((each) =>
      el("li", {}, `${each.path}:${each.line}: ${each.torn ? "torn, still being written or cut off: " : ""}${each.why}`))));
  return share !== "";
}

/** Follow the index: every second while it is being made, rarely later on, when a run may have added to the files. */
async function watch(busy) {
  for (;;) {
    await new Promise((resolve) => { setTimeout(resolve, busy ? 1000 : 15000); });
    if (document.hidden) continue;
    const before = state.episodes;
    const growing = busy;
    busy = await look().catch(() => busy);
    const form = $("filters");
    if (!form || state.episodes === before) continue;
    if (!form.contains(document.activeElement)) form.replaceWith(filters());
    if (growing) list();
  }
}

/** Put a view in place; `more` are its keys. */
function show(more, ...children) {
  keys = more;
  scrollTo(0, 0);
  $("main").replaceChildren(...children.flat(9).filter(Boolean));
}

const VIEWS = ["e", "two", "on", "tree"];

/** What the address says: the view (the list, where it is none of these) and its numbers. */
const place = () => location.hash.replace(/^#\/?/, "").split("?")[0].split("/");

/** What every address says of the list: filters, search, order and page. */
function wantedHere() {
  const at = location.hash.indexOf("?");
  const known = ["text", "outcome", "order", "offset", ...FACETS, ...["reward", "steps"].flatMap((name) => [`min_${name}`, `max_${name}`])];
  return Object.fromEntries([...new URLSearchParams(at < 0 ? "" : location.hash.slice(at + 1))]
    .filter(([name, value]) => known.includes(name) && value !== ""));
}

/** The address of a view (of the list, if none is named), with what is wanted of the list, so that a reload keeps it. */
function addressOf(...view) {
  const said = new URLSearchParams(wanted).toString();
  return `#/${view.join("/")}${said ? `?${said}` : ""}`;
}

async function route() {
  const mine = ++shown;
  if (!say.stays) $("said").hidden = true;
  say.stays = false;
  const [name, ...rest] = place();
  const [a, b] = rest.map(Number);
  wanted = wantedHere();
  try {
    if (VIEWS.includes(name) && !(["two", "on"].includes(name) ? [a, b] : [a]).every(Number.isSafeInteger)) throw new Error("No such episode.");
    if (name === "e") await episode(a, b || 0, mine);
    else if (name === "two") await two(a, b, mine);
    else if (name === "on") await goOn(a, b, mine).catch((error) => backTo(addressOf("e", a, b), error, mine));
    else if (name === "tree") await forks(a, mine);
    else {
      filters.typed = null;
      $("filters")?.replaceWith(filters());
      await list();
    }
  } catch (error) {
    if (mine === shown) show({}, el("p", { class: "error", role: "alert" }, error.message), el("p", {}, el("a", { href: "#/" }, "All episodes")));
  }
}

/** Return to a view from one that cannot be shown, and say why. */
async function backTo(address, error, mine) {
  if (mine !== shown) return;
  history.replaceState(null, "", address);
  await route();
  say(error.message);
  clearTimeout(say.timer); // it may be a command to copy
}

/** Which of its task's attempts an episode is, and where it was forked, as its id says: `#0`, `#3+2`. */
function attemptOf(row) {
  const [, attempt, fork] = /#(\d+)(?:\+(\d+))?$/.exec(row.id) ?? [];
  return attempt === undefined ? null : `attempt ${attempt}${fork ? `, forked after step ${fork}` : ""}`;
}
/** The end of an agent's name that is a long path. */
const agentOf = (row) => (row.agent.length > 32 && row.agent.includes("/") ? `…/${row.agent.split("/").slice(-3).join("/")}` : row.agent);
const outcomeOf = (row) => el("span", { class: row.outcome === "success" ? "good" : "bad" }, row.outcome);

// ------------------------------------------------------------------------------------------------------------- list

const PAGE = 100;

async function list() {
  const mine = list.asked = (list.asked ?? 0) + 1;
  const found = await source.list({ ...wanted, offset: wanted.offset ?? 0, limit: PAGE });
  if (mine !== list.asked || VIEWS.includes(place()[0])) return; // something else was asked for meanwhile
  const from = Number(wanted.offset ?? 0);
  const several = found.rows.some((row) => attemptOf(row) && !row.id.endsWith("#0"));
  const rows = el("ol", { class: "list", "aria-label": "Episodes" }, found.rows.map((row) => el("li", {},
    el("a", { href: addressOf("e", row.n) },
      outcomeOf(row),
      el("span", { class: "what" }, row.task, el("span", { class: "told" }, row.instruction)),
      el("span", { class: "where", title: row.agent }, [row.round === null ? null : `round ${row.round}`, row.split, agentOf(row), several ? attemptOf(row) : null].filter((x) => x !== null).join(" · ")),
      el("span", { class: "number" }, `reward ${number(row.reward, 2)}`),
      el("span", { class: "number" }, plural(row.steps, "step")),
      el("span", { class: "thumb" }, row.thumb ? [thumbIcon(row.thumb)] : null)))));
  const move = (by) => () => {
    wanted.offset = Math.max(0, from + by);
    if (!wanted.offset) delete wanted.offset;
    history.pushState(null, "", addressOf());
    list().then(() => { scrollTo(0, 0); });
  };
  const pages = el("nav", { class: "pages", "aria-label": "Pages" },
    button("Previous", move(-PAGE), { disabled: from === 0 }),
    button("Next", move(PAGE), { disabled: from + PAGE >= found.total }),
    el("span", { class: "soft", id: "count" }, found.total === 0 ? "no episode fits"
      : `${(from + 1).toLocaleString("en")} to ${Math.min(from + PAGE, found.total).toLocaleString("en")} of ${plural(found.total, "episode")}`));
  const focused = () => rows.contains(document.activeElement) ? document.activeElement.parentElement : null;
  const go = (to) => to?.querySelector("a")?.focus();
  const own = {
    j: () => go(focused() ? focused().nextElementSibling : rows.firstElementChild),
    k: () => go(focused()?.previousElementSibling),
    "/": () => document.querySelector("#filters [name=text]").focus(),
  };
  own.ArrowDown = own.j;
  own.ArrowUp = own.k;
  if ($("filters")) {
    keys = own;
    $("found").replaceChildren(rows, pages);
  } else {
    show(own, filters(), el("div", { id: "found" }, rows, pages));
  }
}

function filters() {
  const choose = (label, name, values) => el("label", {}, label, el("select", { name },
    el("option", { value: "" }, "all"),
    values.map(([value, count]) => el("option", { value, selected: String(wanted[name] ?? "") === String(value) },
      count === null ? value : `${value} (${count.toLocaleString("en")})`))));
  const range = (label, name, step) => el("label", {}, label, el("span", { class: "range" }, ["min", "max"].map((end) =>
    el("input", { type: "number", step, name: `${end}_${name}`, placeholder: end, "aria-label": `${label}, ${end}`,
      value: wanted[`${end}_${name}`] }))));
  const form = el("form", { class: "filters", id: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
    el("div", { class: "grid first" },
      el("label", { class: "wide" }, "Words in the task, pages and replies",
        el("input", { type: "search", name: "text", value: wanted.text, placeholder: "Press / to search" })),
      choose("Outcome", "outcome", ["success", "failure", "error"].map((name) => [name, null])),
      el("label", {}, "Order", el("select", { name: "order" }, Object.entries(ORDERS).map(([value, label]) =>
        el("option", { value, selected: (wanted.order ?? "file") === value }, label))))),
    el("details", { open: filters.open ?? matchMedia("(min-width: 44rem)").matches, ontoggle: (event) => { filters.open = event.target.open; } },
      el("summary", {}, "More filters"),
      el("div", { class: "grid" },
        FACETS.filter((name) => state.facets[name].length > (name === "failure_kind" ? 0 : 1)).map((name) => choose(LABELS[name], name, state.facets[name])),
        range("Reward", "reward", "any"), range("Steps", "steps", "1"))));
  form.addEventListener("input", (event) => {
    clearTimeout(filters.timer);
    filters.timer = setTimeout(() => {
      if (!form.isConnected) return;
      wanted = Object.fromEntries([...new FormData(form)].filter(([name, value]) => value !== "" && !(name === "order" && value === "file")));
      const goesOn = event.target.matches("input") && event.target.name === filters.typed; // one entry for what is typed in one go
      filters.typed = event.target.matches("input") ? event.target.name : null;
      history[goesOn ? "replaceState" : "pushState"](null, "", addressOf());
      list();
    }, 150);
  });
  return form;
}
const LABELS = { env: "World", split: "Split", round: "Round", agent: "Agent", kind: "Kind", difficulty: "Difficulty", failure_kind: "Kind of failure" };
const ORDERS = { file: "as stored", best: "best reward first", worst: "worst reward first", longest: "longest first", shortest: "shortest first" };

/** Open the episode before or after one in the list. */
async function neighbour(n, by) {
  const found = await source.neighbours(n, wanted);
  const to = by < 0 ? found.previous : found.next;
  if (to !== null) location.hash = addressOf("e", to);
  else say(!found.listed ? "This one is not in the list: its filters leave it out." : by < 0 ? "This is the first one." : "This is the last one.");
}

// ---------------------------------------------------------------------------------------------------------- episode

const view = { tokens: false, plan: false };
const STARS = [1, 2, 3, 4, 5];

async function episode(n, at, mine) {
  const found = await source.episode(n);
  if (mine !== shown) return;
  const { row, siblings } = found;
  const t = found.episode;
  let here = 0;
  let plans = null;

  const steps = el("ol", { class: "steps", "aria-label": "Steps" }, t.steps.map((step, i) => turn(step, i, {
    onclick: (event) => { if (!event.target.closest("button, summary, form, .tokens")) move(i, false); },
    tokens: view.tokens,
    on: embedded ? null : addressOf("on", n, i),
  })), ending(t));
  const aside = el("aside", { "aria-label": "The expert's plan", hidden: true });
  const beside = el("div", { class: "beside" }, steps, aside);

  function move(to, scroll = true) {
    here = Math.max(0, Math.min(to, t.steps.length));
    [...steps.children].forEach((each, i) => { each.classList.toggle("here", i === here); each.tabIndex = i === here ? 0 : -1; });
    const now = steps.children[here];
    now.focus({ preventScroll: true });
    if (scroll) now.scrollIntoView({ block: "nearest" });
    history.replaceState(null, "", addressOf("e", n, here));
    showPlan();
  }

  async function showPlan() {
    aside.hidden = !view.plan;
    beside.classList.toggle("open", view.plan);
    if (!view.plan) return;
    if (plans === null) {
      aside.replaceChildren(el("h2", {}, "The expert's plan"), el("p", { class: "soft" }, "…"));
      plans = await source.plans(n).catch((error) => ({ error: error.message }));
    }
    if (plans.error) {
      aside.replaceChildren(el("h2", {}, "The expert's plan"), el("p", { class: "error" }, plans.error));
      return;
    }
    const plan = plans.plans[here];
    const said = t.steps[here]?.action;
    aside.replaceChildren(plans.values ? curve(plans.values, plans.fault, here, move) : "", el("h2", {}, here < t.steps.length ? `The expert's plan before step ${here + 1}` : "The expert's plan"),
      plan === undefined ? el("p", { class: "soft" }, "The episode is over.")
        : plan.length === 0 ? el("p", { class: "soft" }, "The expert has no plan from here.")
          : el("ol", {}, plan.map((action, i) => el("li", { class: i === 0 && action.split("\n")[0] === said ? "done" : "" }, text(action)))),
      plan?.length ? el("p", { class: "soft" }, `${plural(plan.length, "step")}${plan[0].split("\n")[0] === said ? "; the agent did the first of them" : ""}`) : null);
  }

  const press = (name, label, title) => button(label, () => toggle(name), { "aria-pressed": view[name], title, id: `toggle-${name}` });
  function toggle(name) {
    view[name] = !view[name];
    $(`toggle-${name}`).setAttribute("aria-pressed", view[name]);
    if (name === "plan") showPlan();
    else episode(n, here, shown);
  }
  async function thumb(verdict) {
    if (embedded) return;
    const now = await server.call("thumb", { episode: n, verdict: row.thumb === verdict ? 0 : verdict });
    row.thumb = now.thumb;
    for (const each of [1, -1]) $(`thumb${each}`).setAttribute("aria-pressed", row.thumb === each);
    say(row.thumb ? `Noted: ${row.thumb > 0 ? "good" : "bad"}.` : "Withdrawn.");
    look();
  }
  const judge = (verdict) => () => thumb(verdict);
  let stars = found.stars ?? 0;
  async function rate(count) {
    stars = (await server.call("stars", { episode: n, stars: stars === count ? 0 : count })).stars;
    for (const each of STARS) $(`stars${each}`).setAttribute("aria-pressed", stars === each);
    say(stars ? `Noted: ${stars} of ${STARS.length}.` : "Withdrawn.");
    look();
  }
  const replies = { ...found.replies };
  function showReply(i) {
    steps.children[i].querySelector(".better")?.remove();
    if (replies[i]) steps.children[i].append(el("div", { class: "better" }, el("b", {}, "Better reply"), text(replies[i])));
  }
  function write() {
    if (here >= t.steps.length) return say("The episode is over there: choose a step.");
    const i = here;
    const place = steps.children[i];
    if (place.querySelector("form")) return place.querySelector("textarea").focus();
    const typed = el("textarea", { rows: 3, name: "reply", "aria-label": `The better reply at step ${i + 1}`, placeholder: "The whole reply: Thought: … Action: …" });
    typed.value = replies[i] || t.steps[i].reply;
    const send = async (words) => {
      replies[i] = (await server.call("reply", { episode: n, step: i, reply: words })).reply;
      form.remove();
      showReply(i);
      place.focus();
      say(replies[i] ? "Noted: a better reply." : "Withdrawn.");
      look();
    };
    const form = el("form", { class: "act", onsubmit: (event) => { event.preventDefault(); if (typed.value.trim()) send(typed.value); } },
      el("label", {}, "What should the agent have replied here?"), typed,
      el("div", { class: "row" }, el("button", { type: "submit", class: "primary" }, "Save"),
        replies[i] ? button("Withdraw", () => send("")) : null, button("Cancel", () => { form.remove(); place.focus(); })));
    place.append(form);
    typed.focus();
    return null;
  }
  const others = siblings.filter((each) => each.n !== n);
  const compare = () => { if (others.length) location.hash = addressOf("two", n, others[0].n); else say("No other episode of this task."); };
  const branches = () => { if (others.length) location.hash = addressOf("tree", n); else say("No other episode of this task."); };
  const goOnHere = () => { if (here < t.steps.length) location.hash = addressOf("on", n, here); else say("The episode is over there: choose a step."); };
  const noTokens = !t.steps.some((step) => step.tokens);

  const own = {
    j: () => move(here + 1), k: () => move(here - 1), ArrowDown: () => move(here + 1), ArrowUp: () => move(here - 1),
    ArrowRight: () => neighbour(n, 1), ArrowLeft: () => neighbour(n, -1), Home: () => move(0), End: () => move(t.steps.length),
    t: () => (noTokens ? say("No token records: no model acted here.") : toggle("tokens")), e: () => toggle("plan"), v: compare,
    f: branches,
    Escape: () => { location.hash = addressOf(); },
    ...(embedded ? {} : { u: judge(1), d: judge(-1), c: goOnHere, r: write, ...Object.fromEntries(STARS.map((count) => [count, () => rate(count)])) }),
  };
  show(own,
    el("h1", {}, row.task),
    el("p", {}, t.instruction),
    el("div", { class: "bar", role: "toolbar", "aria-label": "Episode" },
      el("a", { href: addressOf() }, "List"),
      button("◀", () => neighbour(n, -1), { "aria-label": "Previous episode", title: "Previous episode (←)" }),
      button("▶", () => neighbour(n, 1), { "aria-label": "Next episode", title: "Next episode (→)" }),
      press("tokens", "Tokens", noTokens ? "No token records: no model acted here" : "Token view (t)"),
      press("plan", "Expert", "The expert's plan, and the value of each state (e)"),
      button(`Compare (${others.length})`, compare, { disabled: others.length === 0, title: "Beside another episode of this task (v)" }),
      button("Tree", branches, { disabled: others.length === 0, title: "All episodes of this task as a tree of forks (f)", id: "branches" }),
      embedded ? null : button("Continue from here", goOnHere, { title: "Continue from the marked step (c)", id: "continue" }),
      el("span", { class: "gap" }),
      embedded ? null : [
        button([thumbIcon(1), " Good"], judge(1), { id: "thumb1", "aria-pressed": row.thumb === 1, title: "Thumb up (u)" }),
        button([thumbIcon(-1), " Bad"], judge(-1), { id: "thumb-1", "aria-pressed": row.thumb === -1, title: "Thumb down (d)" }),
        el("span", { class: "stars", role: "group", "aria-label": "Rating from 1, the worst, to 5" }, STARS.map((count) =>
          button(String(count), () => rate(count), { id: `stars${count}`, "aria-pressed": stars === count, title: `${count} of ${STARS.length} (${count})` }))),
        button("Better reply", write, { id: "better", title: "Write the better reply at the marked step (r)" })]),
    facts(row, t),
    view.tokens ? legend(t, noTokens) : null,
    t.rules ? el("details", {}, el("summary", {}, "Rules that opened the episode"), text(t.rules)) : null,
    t.partner ? el("details", {}, el("summary", {}, "Moves of all roles"), el("ol", {}, t.partner.moves.map((move) => el("li", {}, text(move ?? "(gave up)"))))) : null,
    el("details", {}, el("summary", {}, "Provenance"), text(JSON.stringify(t.provenance, null, 1))),
    beside);
  $("toggle-tokens").disabled = noTokens;
  t.steps.forEach((_, i) => showReply(i));
  move(at, at > 0);
}

function facts(row, t) {
  const shownFacts = {
    outcome: outcomeOf(row), reward: number(t.reward, 4),
    steps: `${t.steps.length}${t.optimal_steps === null ? "" : ` (optimal ${t.optimal_steps})`}`,
    "invalid steps": row.invalid === undefined ? null : String(row.invalid),
    world: row.env, split: row.split, round: row.round === null ? null : String(row.round), kind: row.kind, difficulty: row.difficulty,
    agent: row.agent, file: `${row.path}:${row.line}`, error: t.error,
  };
  return [el("dl", { class: "facts" }, Object.entries(shownFacts).filter(([, value]) => value !== null && value !== "").map(([name, value]) =>
    el("div", {}, el("dt", { title: TERMS[name] }, name), el("dd", {}, value)))),
  row.outcome === "failure" && t.reward > 0 ? el("p", { class: "soft" }, "This failure has a reward because the world gives credit for parts of a task; a success needs the whole task.") : null];
}

/** The value of each state as a small curve; a click goes to the step. */
function curve(values, fault, here, move) {
  const [width, height, edge] = [280, 72, 6];
  const x = (i) => edge + (width - 2 * edge) * (values.length > 1 ? i / (values.length - 1) : 0);
  const y = (value) => edge + (height - 2 * edge) * (1 - value);
  const falls = values.map((value, i) => i > 0 && value < values[i - 1] - 1e-9);
  const lines = values.slice(1).map((value, i) => draw("line", { x1: x(i), y1: y(values[i]), x2: x(i + 1), y2: y(value), class: falls[i + 1] ? "falls" : "" }));
  const dots = values.map((value, i) => draw("circle", { cx: x(i), cy: y(value), r: i === here ? 5 : 2.5, class: i === here ? "here" : falls[i] ? "falls" : "" }));
  const marks = [0, 1].map((value) => draw("line", { x1: 0, y1: y(value), x2: width, y2: y(value), class: "mark" }));
  const drawn = draw("svg", { viewBox: `0 0 ${width} ${height}`, class: "curve", role: "img",
    "aria-label": `Value by step: ${number(values[0])} at the start, ${number(values.at(-1))} at the end` }, marks, lines, dots);
  drawn.addEventListener("click", (event) => {
    const box = drawn.getBoundingClientRect();
    move(Math.round(((event.clientX - box.left) / box.width * width - edge) / (width - 2 * edge) * (values.length - 1)));
  });
  const now = here < values.length - 1 ? `${number(values[here])} before step ${here + 1}, ${number(values[here + 1])} after it` : `${number(values[here])} at the end`;
  return el("div", {}, el("h2", { title: TERMS.value }, "Value"), drawn, el("p", { class: "soft" }, `${now}. `,
    fault === null ? "No fault." : ["First fault: ", el("a", { href: "", onclick: (event) => { event.preventDefault(); move(fault.step - 1); } }, `step ${fault.step}`),
      `, ${fault.kind}${fault.regret ? ` of ${plural(fault.regret, "step")}` : ""}.`, fault.better === null ? null : [" The expert: ", el("code", {}, fault.better)]]));
}

/** One step: what was seen, thought, done and got. */
function turn(step, i, { onclick = null, tokens = false, on = null, before = false } = {}) {
  return el("li", { onclick, tabindex: -1, "aria-label": `Step ${i + 1}`, class: before ? "before" : "" },
    tokens && step.tokens ? tokenView(step.tokens) : [folding(step.observation, text(step.observation)), reply(step)],
    el("div", { class: "chips" },
      `step ${i + 1}`,
      step.valid ? el("span", { class: "chip" }, "valid") : el("span", { class: "chip bad", title: TERMS["invalid steps"] }, "not valid here"),
      step.tokens?.cut || step.usage?.cut ? el("span", { class: "chip bad", title: TERMS["cut at the limit"] }, "cut at the limit") : null,
      step.reward ? el("span", { class: "chip" }, `reward ${number(step.reward, 4)}`) : null,
      Object.entries(step.reward_parts).map(([name, value]) => el("span", { class: "chip" }, `${name} ${number(value, 4)}`)),
      Object.entries(step.costs ?? {}).filter(([, value]) => value > 0).map(([name, value]) => el("span", { class: "chip bad" }, `cost: ${name} ${number(value, 4)}`)),
      step.trained || before ? null : el("span", { class: "chip", title: TERMS["not learned from"] }, "not learned from"),
      on ? button("Continue from here", () => { location.hash = on; }) : null));
}

function reply(step) {
  return el("div", { class: step.valid ? "says" : "says invalid" },
    step.thought ? folding(step.thought, el("div", { class: "thought" }, step.thought)) : null,
    el("pre", { class: "text" }, el("b", {}, step.action || "(no action)"), step.action_input === null ? null : `\n${step.action_input}`));
}

function ending(t) {
  const how = { error: "an infrastructure failure ended it", gave_up: "the agent gave up", terminated: "the world ended it" }[t.stop_reason] ?? "out of steps";
  return el("li", { tabindex: -1, "aria-label": "End", class: "end" }, folding(t.final_observation, text(t.final_observation)),
    el("div", { class: "chips" }, "end", el("span", { class: "chip" }, how), el("span", { class: t.success ? "chip" : "chip bad" }, t.success ? "success" : "no success")));
}

// ----------------------------------------------------------------------------------------------------------- tokens

const legend = (t, none) => el("div", { class: "legend" }, none ? "No token records: no model acted in this episode." : [
  el("span", {}, el("span", { class: "tok sampled" }, "sampled"), " \u00a0learned from; red below where it was unlikely"),
  el("span", {}, el("span", { class: "tok put" }, "put in"), " \u00a0mask 0"),
  el("span", {}, el("span", { class: "tok context" }, "context"), " \u00a0what the model saw"),
  el("span", {}, "hover, or focus and use ← →, for log-probability and id"),
  t.steps.some((step) => step.tokens && !step.tokens.texts) ? el("span", {}, "no tokenizer fits: ids are shown") : null]);

function tokenView(record) {
  const said = el("div", { class: "soft", "aria-live": "polite" }, " ");
  const piece = (id, texts, i) => (texts ? texts[i] || `⟨${id}⟩` : `⟨${id}⟩`);
  const spans = [
    ...record.context.map((id, i) => el("span", { class: "tok context", "data-said": `context, id ${id}`, title: `context, id ${id}` }, piece(id, record.context_texts, i))),
    ...record.ids.map((id, i) => {
      const words = record.mask[i] ? `logprob ${record.logprobs[i].toFixed(3)}, p ${Math.exp(record.logprobs[i]).toFixed(3)}, id ${id}` : `put in (mask 0), id ${id}`;
      const made = el("span", { class: record.mask[i] ? "tok sampled" : "tok put", "data-said": words, title: words }, piece(id, record.texts, i));
      made.style.setProperty("--doubt", record.mask[i] ? (1 - Math.exp(record.logprobs[i])).toFixed(3) : "0");
      return made;
    })];
  let now = record.context.length;
  const mark = (i) => {
    spans[now]?.classList.remove("now");
    now = Math.max(0, Math.min(i, spans.length - 1));
    spans[now]?.classList.add("now");
    said.textContent = spans[now]?.dataset.said ?? "";
  };
  const over = (event) => { const i = spans.indexOf(event.target); if (i >= 0) mark(i); };
  return el("div", {},
    el("div", {
      class: "tokens", tabindex: 0, role: "group", "aria-label": "Tokens", onpointerover: over, onclick: over, onfocus: () => mark(now),
      onkeydown: (event) => {
        const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (by) { event.preventDefault(); event.stopPropagation(); mark(now + by); }
      },
    }, spans), said);
}

// ------------------------------------------------------------------------------------------------- a tree of forks

/** Join episodes that act alike: steps that all of them share, then the branches. */
function grow(episodes, from = 0) {
  let at = from;
  for (;;) {
    const groups = new Map();
    for (const each of episodes) if (each.path.length > at) groups.set(each.path[at].key, [...(groups.get(each.path[at].key) ?? []), each]);
    const ended = episodes.filter((each) => each.path.length === at);
    if (groups.size !== 1 || ended.length) return { from, to: at, episodes, ended, branches: [...groups.values()].map((group) => grow(group, at)) };
    at += 1;
  }
}

async function forks(n, mine) {
  const found = await source.tree(n);
  if (mine !== shown) return;
  const root = grow(found.episodes);
  const self = found.episodes.find((each) => each.row.n === n);
  const won = (episodes) => episodes.filter((each) => each.row.outcome === "success").length;

  /** The steps that the episodes of a branch share, each a link to it. */
  function path(branch) {
    const one = branch.episodes.includes(self) ? self : branch.episodes[0];
    const link = (i) => el("a", { href: addressOf("e", one.row.n, i), tabindex: -1, class: one.path[i].valid ? "act" : "act invalid", title: one.path[i].action },
      el("small", {}, `${i + 1} `), one.path[i].action.length > 60 ? `${one.path[i].action.slice(0, 59)}…` : one.path[i].action || "(no action)");
    const all = Array.from({ length: branch.to - branch.from }, (_, i) => branch.from + i);
    const some = all.length > 7 ? [...all.slice(0, 3), null, ...all.slice(-3)] : all;
    return el("span", { class: "path" }, some.map((i) => (i === null ? el("span", { class: "soft" }, `… ${plural(all.length - 6, "step")} …`) : link(i))));
  }
  const share = (episodes) => {
    const bar = el("span", { class: "share", "aria-hidden": true }, el("span"));
    bar.firstChild.style.width = `${(100 * won(episodes)) / episodes.length}%`;
    return el("span", { class: "sum" }, bar, `${won(episodes)} of ${plural(episodes.length, "episode")} succeed`);
  };
  const outcome = ({ row }) => el("a", { href: addressOf("e", row.n, row.steps), tabindex: -1, class: "sum" }, outcomeOf(row), ` · reward ${number(row.reward, 3)}`,
    el("span", { class: "soft" }, ` · ${[agentOf(row), attemptOf(row)].filter(Boolean).join(" · ")}`));

  function item(target, mark, labels, children) {
    const inner = children.length ? el("ul", { role: "group" }, children) : null;
    return el("li", { role: "treeitem", tabindex: -1, "aria-expanded": inner ? true : null, "data-to": target, class: mark ? "mine" : "" }, el("div", { class: "node" }, labels), inner);
  }
  function nodes(branch, title = null) {
    const mark = branch.episodes.includes(self);
    const one = mark ? self : branch.episodes[0];
    const leaf = branch.episodes.length === 1;
    const ends = leaf ? [] : branch.ended.map((each) => item(addressOf("e", each.row.n, each.row.steps), each === self, [outcome(each)], []));
    return item(addressOf("e", one.row.n, Math.max(branch.from, 0)), mark,
      [title, path(branch), leaf ? outcome(one) : share(branch.episodes)], [...ends, ...branch.branches.map((each) => nodes(each))]);
  }
  const tree = el("ul", { class: "tree", role: "tree", "aria-label": "Episodes of the task" },
    nodes(root, el("b", {}, "Start ")));
  const visible = () => [...tree.querySelectorAll("li")].filter((each) => !each.parentElement.closest("[aria-expanded=false]"));
  const now = () => tree.querySelector("li[tabindex='0']");
  const go = (to) => {
    if (!to) return;
    now()?.setAttribute("tabindex", -1);
    to.tabIndex = 0;
    to.focus({ preventScroll: true });
    to.firstChild.scrollIntoView({ block: "nearest" });
  };
  const expand = (each, open) => { if (each?.hasAttribute("aria-expanded")) each.setAttribute("aria-expanded", open); };
  const by = (step) => () => { const all = visible(); go(all[all.indexOf(now()) + step]); };
  tree.addEventListener("click", (event) => {
    const each = event.target.closest("li");
    if (event.target.closest("a") || !each) return;
    go(each);
    expand(each, each.getAttribute("aria-expanded") === "false");
  });
  show({
    j: by(1), k: by(-1), ArrowDown: by(1), ArrowUp: by(-1), Home: () => go(visible()[0]), End: () => go(visible().at(-1)),
    ArrowRight: () => { if (now().getAttribute("aria-expanded") === "false") expand(now(), true); else go(now().querySelector("li")); },
    ArrowLeft: () => { if (now().getAttribute("aria-expanded") === "true") expand(now(), false); else go(now().parentElement.closest("li")); },
    Enter: () => { location.hash = now().dataset.to; }, Escape: () => { location.hash = addressOf("e", n); },
  },
  el("h1", {}, self.row.task), el("p", {}, self.row.instruction),
  el("div", { class: "bar" }, el("a", { href: addressOf("e", n) }, "Back"),
    button("Expand all", () => tree.querySelectorAll("[aria-expanded]").forEach((each) => expand(each, true))),
    button("Collapse", () => tree.querySelectorAll("li li[aria-expanded]").forEach((each) => expand(each, false))),
    el("span", { class: "soft" }, "Episodes with the same actions share a branch. A step opens its episode; blue marks the one you came from.",
      found.left_out ? ` ${plural(found.left_out, "episode")} left out.` : "")),
  tree);
  if (found.episodes.length > 40) tree.querySelectorAll("li li:not(.mine)[aria-expanded]").forEach((each) => expand(each, false));
  go([...tree.querySelectorAll("li.mine")].at(-1));
}

// -------------------------------------------------------------------------------------------------- two side by side

async function two(a, b, mine) {
  const [left, right] = await Promise.all([source.episode(a), source.episode(b)]);
  const said = embedded ? null : await server.preference(a, b);
  if (mine !== shown) return;
  const head = (one, other, name) => {
    const choose = el("select", { "aria-label": `${name}: which episode`, onchange: (event) => {
      location.hash = name === "A" ? addressOf("two", event.target.value, b) : addressOf("two", a, event.target.value);
    } }, one.siblings.filter((each) => each.n !== other.row.n).map((each) => el("option", { value: each.n, selected: each.n === one.row.n },
      `${each.outcome}, reward ${number(each.reward, 3)}, ${plural(each.steps, "step")} · ${each.agent} · ${each.path}:${each.line}`)));
    return el("div", { class: "head" }, el("h2", {}, `${name} · `, outcomeOf(one.row), ` · reward ${number(one.row.reward, 3)} · ${plural(one.row.steps, "step")}`),
      choose, el("p", { class: "soft" }, el("a", { href: addressOf("e", one.row.n) }, "Open it")));
  };
  const long = Math.max(left.episode.steps.length, right.episode.steps.length) + 1;
  const cell = (t, i, name, parts) => el("div", { class: parts ? "parts" : "" }, el("span", { class: "side" }, name),
    i < t.steps.length ? el("ol", { class: "steps" }, turn(t.steps[i], i)) : i === t.steps.length ? el("ol", { class: "steps" }, ending(t)) : null);
  const same = (i) => {
    const [x, y] = [left.episode.steps[i], right.episode.steps[i]];
    return x !== undefined && y !== undefined && x.observation === y.observation && x.reply === y.reply;
  };
  const cells = [];
  let fork = 0;
  while (fork < long && same(fork)) fork += 1;
  for (let i = 0; i < long; i += 1) cells.push(cell(left.episode, i, "A", i === fork), cell(right.episode, i, "B", i === fork));

  async function prefer(verdict) {
    const now = await server.call("preference", { first: a, second: b, verdict: said.verdict === verdict ? 0 : verdict });
    said.verdict = now.verdict;
    for (const each of [1, -1]) $(`prefer${each}`).setAttribute("aria-pressed", said.verdict === each);
    say(said.verdict ? `Noted: ${said.verdict > 0 ? "A" : "B"} is better.` : "Withdrawn.");
    look();
  }
  const judge = (verdict) => () => { if (said?.comparable) prefer(verdict); };
  const choice = (label, verdict, title) => button(label, judge(verdict), { id: `prefer${verdict}`, "aria-pressed": said.verdict === verdict, disabled: !said.comparable, title });
  show({ a: judge(1), b: judge(-1), Escape: () => { location.hash = addressOf("e", a); } },
    el("h1", {}, left.row.task), el("p", {}, left.episode.instruction),
    el("div", { class: "bar", role: "toolbar", "aria-label": "Which is better" },
      el("a", { href: addressOf("e", a) }, "Back"),
      said ? [choice("A is better", 1, "A is better (a)"), choice("B is better", -1, "B is better (b)"),
        said.comparable ? null : el("span", { class: "soft" }, "Different openings: no trainer can pair these.")] : null,
      el("span", { class: "soft" }, fork ? `${plural(fork, "step")} the same, then they differ` : "They differ from the first step")),
    el("div", { class: "two" }, head(left, right, "A"), head(right, left, "B"), cells));
}

// --------------------------------------------------------------------------------------------------------- going on

async function goOn(n, at, mine) {
  const begun = await source.episode(n);
  let live = await server.call("live", { episode: n, at });
  if (mine !== shown) return;
  const steps = el("ol", { class: "steps", "aria-label": "Steps" });
  const panel = el("div", {});
  let busy = false;

  async function act(by, more = {}) {
    if (busy) return;
    busy = true;
    panel.querySelectorAll("button, textarea").forEach((each) => { each.disabled = true; });
    if (by !== "person") {
      say(by === "expert" ? "The expert acts …" : "The model acts; loading it takes some seconds …");
      clearTimeout(say.timer); // it stays until the reply is here
    }
    try {
      live = await server.call(`live/${live.key}/act`, { by, ...more });
      $("said").hidden = true;
      if (live.gave_up) say("No reply: the context is full, or there is nothing left to do.");
    } catch (error) {
      say(error.message);
    }
    busy = false;
    draw(true);
  }
  async function keep() {
    const kept = await server.call(`live/${live.key}/keep`, {});
    await look();
    say(`Kept in ${kept.file}.`, kept.n !== null);
    if (kept.n !== null) location.hash = addressOf("e", kept.n);
  }

  function draw(scroll) {
    const t = live.episode;
    steps.replaceChildren(...t.steps.map((step, i) => turn(step, i, { before: i < at, tokens: view.tokens })));
    const last = el("li", { class: "here" }, text(t.final_observation));
    steps.append(live.over ? ending(t) : last);
    const added = t.steps.length - at;
    const keeping = button("Keep this episode", keep, { id: "keep", disabled: added === 0, title: "Write it to continued.jsonl beside the store" });
    if (live.over) {
      panel.replaceChildren(el("p", {}, "It is over: ", el("b", { class: t.success ? "good" : "bad" }, t.success ? "success" : "no success"),
        `, reward ${number(t.reward, 4)} after ${plural(t.steps.length, "step")}. `), el("div", { class: "bar" }, keeping));
    } else {
      const typed = el("textarea", { rows: 2, name: "action", placeholder: "An action, or a whole reply: Thought: … Action: …", "aria-label": "Your reply", id: "action" });
      const form = el("form", { class: "act", onsubmit: (event) => { event.preventDefault(); if (typed.value.trim()) act("person", { text: typed.value }); } },
        el("label", { for: "action" }, `What do you do at step ${t.steps.length + 1}?`), typed,
        live.actions?.length ? el("div", { class: "offers", "aria-label": "Admissible actions" }, live.actions.map((each) =>
          button(each.replace(/\nAction Input: /, " "), () => { typed.value = each; typed.focus(); }))) : null,
        el("div", { class: "row" },
          el("button", { type: "submit", class: "primary", id: "do" }, "Do it"),
          button("Expert: one step", () => act("expert"), { id: "expert" }),
          button("Expert: to the end", () => act("expert", { steps: 100 })), keeping),
        state.models.length ? el("div", { class: "row" },
          el("label", {}, "Model ", el("select", { name: "model", id: "model" }, state.models.map((name, i) => el("option", { value: name, selected: name === goOn.model || (!goOn.model && i === state.models.length - 1) }, name)))),
          el("label", {}, "Temperature ", el("select", { name: "temperature" }, ["0", "0.7", "1"].map((each) => el("option", { value: each, selected: each === goOn.temperature }, each)))),
          button("Model: one step", () => model(1), { id: "model-step" }), button("Model: to the end", () => model(100))) : null);
      const model = (count) => {
        goOn.model = form.elements.model.value;
        goOn.temperature = form.elements.temperature.value;
        act(goOn.model, { steps: count, temperature: Number(goOn.temperature) });
      };
      typed.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); form.requestSubmit(); }
      });
      panel.replaceChildren(form);
      typed.focus({ preventScroll: true });
    }
    if (scroll) panel.scrollIntoView({ block: "end" });
  }

  show({ Escape: () => { location.hash = addressOf("e", n, at); } },
    el("h1", {}, begun.row.task), el("p", {}, begun.episode.instruction),
    el("div", { class: "bar" }, el("a", { href: addressOf("e", n, at) }, "Back"),
      el("span", { class: "soft" }, at ? `Steps 1 to ${at} as they were, then you.` : "From the start.")),
    steps, panel);
  draw(true);
}

// ------------------------------------------------------------------------------------------------------------- help

const TERMS = {
  outcome: "Success, failure, or error: an infrastructure failure, which no figure counts.",
  "kind of failure": "How an episode failed: the agent gave up, no action was valid, the world ended it without success, or it ran out of steps, maybe in a loop.",
  reward: "The return: the sum of the rewards of the steps. A failure may have one, because worlds give credit for parts of a task.",
  steps: "Actions of the agent. Optimal is the smallest number that solves the task, if the world knows it.",
  "invalid steps": "Steps whose action the world does not accept in that state.",
  "cut at the limit": "The model's reply reached the largest number of tokens, so its end is missing. --max_new_tokens sets the limit.",
  world: "The environment that was played.",
  split: "The set of tasks: train, valid or test.",
  round: "The round of AgentEvol that collected the episode; round 0 trains Agent_v0.",
  kind: "The world's own class of the task.",
  difficulty: "The world's own level of the task.",
  agent: "Who acted: an expert, a model, a person, or several of them.",
  attempt: "The number of the episode among those of the same task, from 0. A fork shares the first steps of another episode.",
  file: "The store that holds the episode, and its line.",
  value: "How good a state is: 0.9 to the power of the steps that the expert still needs; 0 if it cannot succeed any more. A step after which the value falls is a fault.",
  "not learned from": "A step that is context only, such as one that a fork repeats. Trainers ignore it.",
  "log-probability": "Of a token under the distribution that it was sampled from; 0 is certain.",
};
const HELP = [
  ["j k ↓ ↑", "next or previous row or step"], ["Enter", "open the row"], ["/", "search"],
  ["← →", "previous or next episode; in tokens: token"], ["Home End", "first step, end"], ["t", "tokens"], ["e", "the expert's plan and the values"],
  ["v", "beside another episode of the task"], ["f", "the tree of the task's episodes; there ← → fold and unfold"], ...(embedded ? [] : [["c", "continue from the marked step"],
    ["u d", "thumb up, thumb down; again: withdraw"], ["1 2 3 4 5", "rating; again: withdraw"], ["r", "write a better reply at the marked step"], ["a b", "A or B is better, in a comparison"]]),
  ["Esc", "back"], ["?", "these keys"]];

$("keys").append(el("form", { method: "dialog" }, el("button", {}, "Close")), el("h2", {}, "Keys"), el("table", {}, el("tbody", {}, HELP.map(([key, what]) =>
  el("tr", {}, el("td", {}, key.split(" ").map((each) => [el("kbd", {}, each), " "])), el("td", {}, what))))),
el("h2", {}, "Terms"), el("dl", { class: "terms" }, Object.entries(TERMS).map(([name, what]) => [el("dt", {}, name), el("dd", {}, what)])));
$("help").addEventListener("click", () => $("keys").showModal());

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "?") { $("keys").showModal(); return; }
  const action = keys[event.key];
  if (action) { event.preventDefault(); action(); }
});

// ------------------------------------------------------------------------------------------------------------ start

const brought = /^#token=(.+)$/.exec(location.hash);
if (brought) {
  sessionStorage.setItem("agentgym-token", brought[1]);
  history.replaceState(null, "", "#/");
}
addEventListener("hashchange", route);
addEventListener("unhandledrejection", (event) => say(event.reason.message));
look().then((busy) => { route(); if (!embedded) watch(busy); }).catch((error) => {
  $("main").replaceChildren(el("p", { class: "error", role: "alert" }, error.message));
});

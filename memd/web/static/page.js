// What every view shares: search as you type, live changes, keys. Each does what a link or a form of the page does.

const trusted = window.trustedTypes?.createPolicy("memd", { createHTML: (html) => html }) ?? { createHTML: (html) => html };
const parsed = async (response) => new DOMParser().parseFromString(trusted.createHTML(await response.text()), "text/html");
const live = () => document.getElementById("live");
const editing = () => document.activeElement?.matches?.("input, textarea, select") ?? false;

// --- parts of a page, fetched anew ---

let newest = 0;
// Nothing is replaced between the press and the release of a button: the click would be lost.
let released = Promise.resolve();
addEventListener("pointerdown", () => {
  const both = new AbortController();
  released = new Promise((done) => ["pointerup", "pointercancel"].forEach((end) => addEventListener(end, () => {
    both.abort();
    setTimeout(done);
  }, { signal: both.signal })));
});
const away = () => document.querySelector("[data-away]");
let pause = 500;
let again;

async function refresh(url, { wholePage = false } = {}) {
  const number = ++newest;
  let response;
  try {
    response = await fetch(url, { headers: wholePage ? {} : { "Memd-Part": "live" } });
  } catch {
    // As below: nobody answered.
  }
  if (!response || response.status === 503) {
    if (number === newest) tryAgain(url, { wholePage });
    return;
  }
  pause = 500;
  if (response.status === 403 || away()) {
    location.reload();
    return;
  }
  const fresh = await parsed(response);
  await released;
  if (number !== newest) return;
  const id = wholePage ? "main" : "live";
  const [old, replacement] = [document.getElementById(id), fresh.getElementById(id)];
  if (!old || !replacement) return;
  // The editor may have been opened since this was asked for, or since the daemon went away.
  if (old.querySelector("[data-editor]") && typedInto(old)) return;
  const open = [...old.querySelectorAll("details")].map((one) => one.open);
  document.title = fresh.title;
  old.replaceChildren(...replacement.childNodes);
  old.querySelectorAll("details").forEach((one, at) => { one.open = open[at] ?? false; });
  if (wholePage) listenToSearch();
}

// While the daemon restarts: less often each time.
function tryAgain(url, options) {
  clearTimeout(again);
  again = setTimeout(() => refresh(url, options), pause);
  pause = Math.min(2 * pause, 15_000);
}

if (away()) tryAgain(location.href);

// --- search as you type ---

function addressOf(form) {
  const values = [...new FormData(form)].filter(([, value]) => value !== "");
  const query = new URLSearchParams(values).toString();
  return query ? `${form.getAttribute("action")}?${query}` : form.getAttribute("action");
}

const SPANS = [["Any time", 0], ["The last year", 365], ["The last quarter", 91], ["The last month", 30], ["The last week", 7], ["Today", 0.1]];
const daysAgo = (days) => new Date(Date.now() - days * 864e5).toLocaleDateString("sv");

// A span of time on a slider; the days themselves show once there are any.
function offerSpan(form) {
  const slider = form.querySelector("[data-span]");
  const { since, until } = form.elements;
  const show = () => {
    slider.previousElementSibling.textContent = since.value && slider.value === "0" ? "A span of time" : SPANS[slider.value][0];
    slider.closest(".chip").classList.toggle("on", Boolean(since.value));
    for (const day of [since, until]) {
      day.closest(".chip").hidden = !since.value && !until.value;
      day.closest(".chip").classList.toggle("on", day.value !== "");
    }
  };
  const set = () => {
    const days = SPANS[slider.value][1];
    since.value = days ? daysAgo(days) : "";
    until.value = "";
    show();
  };
  slider.closest(".chip").hidden = false;
  slider.value = Math.max(0, SPANS.findIndex(([, days]) => days && since.value === daysAgo(days)));
  slider.addEventListener("input", set);
  for (const day of [since, until]) day.addEventListener("change", () => { slider.value = 0; show(); });
  show();
}

function listenToSearch() {
  const form = document.querySelector("form[data-search]");
  if (!form) return;
  offerSpan(form);
  let timer;
  const typed = form.elements.q;
  const go = (push) => {
    clearTimeout(timer);
    const url = addressOf(form);
    history[push ? "pushState" : "replaceState"](null, "", url);
    refresh(url);
  };
  let settled = typed.value;
  typed.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => go(false), 90);
  });
  typed.addEventListener("change", () => {
    if (typed.value !== settled) history.pushState(null, "", addressOf(form));
    settled = typed.value;
  });
  form.addEventListener("change", (event) => {
    if (event.target.matches("select, input[list]")) event.target.closest(".chip").classList.toggle("on", event.target.value !== "");
    if (event.target !== typed) go(true);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    go(true);
  });
}

addEventListener("popstate", () => refresh(location.href, { wholePage: true }));
listenToSearch();

// --- forms that need no button ---

document.addEventListener("change", (event) => {
  const form = event.target.closest("form[data-auto]");
  if (form) location.assign(addressOf(form));
});

// --- live ---

const pulse = document.querySelector("[data-pulse]");
let source;
let waiting;
let missed = false;

function listen() {
  source = new EventSource("/events");
  source.onmessage = (message) => hear(JSON.parse(message.data));
  source.onerror = () => pulse?.classList.replace("on", "off");
}

function hear(event) {
  pulse?.classList.toggle("on", event.event !== "gone");
  pulse?.classList.toggle("off", event.event === "gone");
  tell(event);
  if (event.event === "connected" && away()) refresh(location.href);
  const shown = live();
  if (!shown?.dataset.live.split(" ").includes(event.event)) return;
  const { path } = shown.dataset;
  if (path && event.paths && !event.paths.includes(path)) return;
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    if (!typedInto(shown)) refresh(location.href);
  }, 250);
}

// Whether someone is typing here, or has typed what is not saved yet.
function typedInto(part) {
  const fields = [...part.querySelectorAll("input:not([type=hidden]), textarea")];
  return fields.some((field) => field === document.activeElement || field.value !== field.defaultValue);
}

function tell(event) {
  const list = document.querySelector("[data-events]");
  if (!list || event.event === "connected") return;
  const facts = ["ns", "who", "what", "name", "key", "files", "removed", "paths", "result", "message"]
    .filter((name) => event[name] !== undefined && event[name] !== "" && event[name] !== 0)
    .map((name) => (Array.isArray(event[name]) ? event[name].slice(0, 3).join(", ") : `${event[name]}`));
  const line = document.createElement("li");
  const time = document.createElement("time");
  time.textContent = new Date(event.at ?? Date.now()).toLocaleTimeString();
  const name = document.createElement("strong");
  name.textContent = event.event;
  line.append(time, " ", name, ` ${facts.join(" · ")}`);
  list.querySelector(".quiet")?.remove();
  list.prepend(line);
  while (list.children.length > 50) list.lastChild.remove();
}

// A browser has few connections to one host: a page that nobody sees gives its own back.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    source?.close();
    missed = true;
  } else if (missed) {
    missed = false;
    listen();
    if (live() && !typedInto(live())) refresh(location.href);
  }
});
if (document.body.dataset.section && !document.hidden) listen();
else missed = true;
addEventListener("pagehide", () => source?.close());

document.querySelector(".top [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// --- keys ---

const places = { s: "/", t: "/timeline", g: "/graph", l: "/life", r: "/review", c: "/context", h: "/health" };
let going = 0;

function move(step) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.classList.contains("here"));
  const next = rows[Math.min(Math.max(at + step, 0), rows.length - 1)];
  rows[at]?.classList.remove("here");
  next.classList.add("here");
  next.querySelector("a")?.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function search() {
  const field = document.getElementById("q");
  if (field) {
    field.focus();
    field.select();
  } else {
    location.assign("/");
  }
}

function writeNote() {
  const note = document.querySelector("[data-note]");
  if (!note) {
    location.assign("/#note");
    return;
  }
  note.open = true;
  note.querySelector("textarea").focus();
}
if (location.hash === "#note") writeNote();

const keys = {
  "/": search,
  j: () => move(1),
  k: () => move(-1),
  e: () => document.querySelector("[data-key=e]")?.click(),
  n: writeNote,
  g: () => { going = Date.now(); },
  "?": () => document.getElementById("help")?.showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.target.closest?.("form")?.requestSubmit();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (editing()) {
    if (event.key === "Escape") {
      // A browser would empty a search field.
      event.preventDefault();
      document.activeElement.blur();
    }
    return;
  }
  if (going && Date.now() - going < 1500 && places[event.key]) {
    going = 0;
    location.assign(places[event.key] + document.querySelector(".brand").search);
    return;
  }
  going = 0;
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});
document.querySelector("[data-help]")?.addEventListener("click", keys["?"]);

// --- editing: on a page of its own, or in the place of the text ---

// A text that is not saved yet.
function guard(text) {
  const before = text.value;
  let saving = false;
  text.focus();
  text.form.addEventListener("submit", () => { saving = true; });
  addEventListener("beforeunload", (event) => {
    if (!saving && text.isConnected && text.value !== before) event.preventDefault();
  });
}

async function editHere(link, prose) {
  const response = await fetch(link.href).catch(() => undefined);
  const form = response?.ok && (await parsed(response)).querySelector("form.editor");
  if (!form) {
    location.assign(link.href);
    return;
  }
  const { text } = form.elements;
  text.rows = Math.min(Math.max(text.value.split("\n").length + 1, 6), 30);
  prose.hidden = true;
  prose.after(form);
  form.querySelector("a").addEventListener("click", (event) => {
    event.preventDefault();
    form.remove();
    prose.hidden = false;
    link.focus();
  });
  guard(text);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-key=e]");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const prose = document.querySelector(".memory > .prose");
  if (!prose.hidden) editHere(link, prose);
});

const text = document.querySelector("[data-editor]");
if (text) guard(text);

// Updates parts of a page in place. The pages work without it.
"use strict";
(() => {
  const EVERY_MS = 5000;       // the interval of the plots
  const AT_LEAST_MS = 2000;    // minimum time between two updates
  const LOST_MS = 4000;        // without a sign of the daemon, which sends its status every second
  const ANSWER_MS = 4000;      // how long an update may take
  const FEED_ROWS = 12;

  const KEPT = "courtly-live";  // per tab: whether updates are stopped
  let on = sessionStorage.getItem(KEPT) !== "off", busy = false, last = 0, timer = 0, source = null;

  // The data on the page is of `dataAt` (the daemon's clock); it was heard of at `heardAt` (ours). Both in milliseconds.
  const root = document.documentElement;
  const BASE = root.dataset.base || "";  // path prefix of all links
  const ownPath = () => (location.pathname.startsWith(BASE + "/") ? location.pathname.slice(BASE.length) : location.pathname);
  let dataAt = Number(root.dataset.at || 0) * 1000, heardAt = Date.now(), shownAt = Date.now();
  let ended = false, lost = false, title = document.title;

  const heard = (at) => {
    heardAt = Date.now();
    ended = false;
    if (at > 0) dataAt = at * 1000;
    contact();
  };

  const clock = (ms) => new Date(ms).toISOString().slice(11, 19) + " UTC";
  const since = (s) => (s < 120 ? `${s} s` : s < 7200 ? `${Math.floor(s / 60)} min` : `${Math.floor(s / 3600)} h`);

  // Shows the age of the data, and whether the daemon still answers.
  function contact() {
    const age = document.getElementById("age");
    if (!age || !dataAt) return;
    const silent = Date.now() - heardAt, seconds = Math.floor(silent / 1000);
    const gone = ended || (on && !document.hidden && Date.now() - Math.max(heardAt, shownAt) > LOST_MS);
    age.textContent = seconds < 2 ? clock(dataAt) : `${clock(dataAt)}, ${since(seconds)} ago`;
    const banner = document.getElementById("no-contact");
    if (gone) {
      const words = ended
        ? `Your session has ended. This page shows the state at ${clock(dataAt)}, ${since(seconds)} ago. `
        : `No answer from the daemon for ${since(seconds)}. This page shows the state at ${clock(dataAt)}.`;
      if (ended) {
        const link = document.createElement("a");
        link.href = BASE + "/login?next=" + encodeURIComponent(ownPath() + location.search);
        link.textContent = "Log in again";
        banner.replaceChildren(words, link);
      } else {
        banner.textContent = words;
      }
      document.title = `⚠ ${ended ? "Logged out" : "No contact"} · ${title.replace(/^⚠ /, "")}`;
    }
    if (gone === lost) return;
    lost = gone;
    banner.hidden = !gone;
    root.classList.toggle("lost", gone);
    if (!gone) { document.title = title; refresh(); }
  }

  const inUse = (part) => {
    const selection = document.getSelection();
    return part.contains(document.activeElement)
      || part.querySelector("details[open], .cursor, :checked")
      || (selection && !selection.isCollapsed && part.contains(selection.anchorNode));
  };

  async function refresh() {
    if (!on || busy || document.hidden) return;
    busy = true;
    last = Date.now();
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html", "X-Live": "1" }, credentials: "same-origin", signal: AbortSignal.timeout(ANSWER_MS) });
      if (answer.redirected || answer.status === 401) { ended = true; contact(); return; }
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      title = fresh.title;
      if (!lost) document.title = title;
      heard(Number(fresh.documentElement.dataset.at || 0));
      for (const part of document.querySelectorAll("[data-live]")) {
        const other = fresh.getElementById(part.id);
        if (!other || inUse(part) || part.innerHTML === other.innerHTML) continue;
        part.replaceChildren(...[...other.childNodes].map((node) => document.importNode(node, true)));
      }
    } catch {
      contact();  // the daemon does not answer; the next update may succeed
    } finally {
      busy = false;
    }
  }

  const soon = () => {
    if (timer) return;
    const wait = Math.max(0, last + AT_LEAST_MS - Date.now());
    timer = setTimeout(() => { timer = 0; refresh(); }, wait);
  };

  function feed(contact) {
    const section = document.getElementById("feed-section");
    if (!section) return;
    const body = section.querySelector("tbody");
    const row = body.insertRow(0);
    const cell = (text, name) => {
      const one = row.insertCell();
      one.textContent = text;
      if (name) one.className = name;
      return one;
    };
    cell(new Date((contact.started_at + contact.elapsed_s) * 1000).toISOString().slice(11, 19), "nowrap");
    const bad = contact.error || contact.status === 429 || contact.status >= 500;
    cell(contact.error || String(contact.status ?? "none"), bad ? "bad" : "");
    const at = cell(contact.kind === "page" ? "" : contact.kind + " ");
    const link = document.createElement("a");
    link.href = BASE + "/url?url=" + encodeURIComponent(contact.url);
    link.textContent = contact.url;
    link.className = "address";
    at.append(link);
    const ms = contact.elapsed_s * 1000;
    cell(ms < 1000 ? Math.round(ms) + " ms" : contact.elapsed_s.toFixed(1) + " s", "n");
    while (body.rows.length > FEED_ROWS) body.deleteRow(-1);
    section.hidden = false;
  }

  function listen() {
    if (!on || source || typeof EventSource === "undefined") return;
    source = new EventSource(BASE + "/api/events");
    source.addEventListener("status", (event) => heard(JSON.parse(event.data).at));
    source.addEventListener("change", soon);
    source.addEventListener("gave_up", soon);
    source.addEventListener("hold", soon);
    source.addEventListener("contact", (event) => { if (on && !document.hidden) feed(JSON.parse(event.data)); });
    source.onerror = () => { if (source && source.readyState === EventSource.CLOSED) { source = null; refresh(); } };
  }

  function disconnect() {
    if (source) source.close();
    source = null;
  }

  // Automatic updates can be stopped (WCAG 2.2.2).
  const place = document.getElementById("live-switch");
  const parts = document.querySelector("[data-live]");
  if (place && parts) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "small";
    const label = () => { button.textContent = on ? "Stop live updates" : "Start live updates"; };
    button.addEventListener("click", () => { on = !on; sessionStorage.setItem(KEPT, on ? "on" : "off"); label(); shownAt = Date.now(); if (on) { listen(); refresh(); } else { disconnect(); } });
    label();
    place.append(button);
    place.hidden = false;
    listen();
    setInterval(() => { listen(); soon(); }, EVERY_MS);
    document.addEventListener("visibilitychange", () => { if (document.hidden) { disconnect(); } else { shownAt = Date.now(); listen(); soon(); } });
    addEventListener("pagehide", disconnect);
  }

  setInterval(contact, 1000);

  // "/" focuses the search field of the page.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) return;
    const field = document.querySelector("[data-slash]") || document.getElementById("find");
    if (field) { event.preventDefault(); field.focus(); field.select(); }
  });

  // A plot shows its value under the pointer.
  const SVG = "http://www.w3.org/2000/svg";
  let caption = "";
  const plotOf = (event) => event.target.closest?.("[data-read]");
  document.addEventListener("pointermove", (event) => {
    const plot = plotOf(event);
    if (!plot) return;
    const points = JSON.parse(plot.dataset.read);
    if (!points.length) return;
    const drawing = plot.querySelector("svg");
    const box = drawing.getBoundingClientRect();
    const at = (event.clientX - box.left) / box.width * 600;
    const near = points.reduce((one, other) => (Math.abs(other[0] - at) < Math.abs(one[0] - at) ? other : one));
    const shown = plot.closest("figure").querySelector("figcaption strong");
    let cursor = drawing.querySelector(".cursor");
    if (!cursor) {
      caption = shown.textContent;
      cursor = document.createElementNS(SVG, "line");
      cursor.setAttribute("class", "cursor");
      cursor.setAttribute("y1", "0");
      cursor.setAttribute("y2", "100");
      drawing.append(cursor);
    }
    cursor.setAttribute("x1", near[0]);
    cursor.setAttribute("x2", near[0]);
    shown.textContent = `${near[1]} at ${near[2]}`;
  });
  document.addEventListener("pointerout", (event) => {
    const plot = plotOf(event);
    if (!plot || plot.contains(event.relatedTarget)) return;
    plot.querySelector(".cursor")?.remove();
    plot.closest("figure").querySelector("figcaption strong").textContent = caption;
  });

  // On a narrow screen, scroll the current item of the navigation into view.
  const here = document.querySelector(".band nav [aria-current]");
  if (here && here.scrollIntoView) here.scrollIntoView({ block: "nearest", inline: "center" });

  // The result of a form gets the focus. A banner does not: it is no result, and would stop being updated.
  const result = document.querySelector(".refused, .said") || document.getElementById("h-verdicts");
  if (result) { result.tabIndex = -1; result.focus({ preventScroll: false }); }
})();

// What an accessibility check would say of the page as it is: a list of sentences, empty if well.
(() => {
  const found = [];
  const say = (what, node) => found.push(what + (node ? ": " + node.outerHTML.slice(0, 160) : ""));
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = (node) => node.getClientRects().length > 0 && getComputedStyle(node).visibility !== "hidden";

  if (!document.documentElement.lang) say("no language");
  if (!document.title.trim()) say("no title");
  if (all("h1").length !== 1) say("not one h1");
  if (all("main").length !== 1) say("not one main");
  let level = 1;
  for (const head of all("h1,h2,h3,h4").filter(shown)) {
    const now = Number(head.tagName[1]);
    if (now > level + 1) say("a level of headings is left out", head);
    level = now;
  }
  const ids = all("[id]").map((node) => node.id);
  for (const id of new Set(ids.filter((one, at) => ids.indexOf(one) !== at))) say("two things have the id " + id);

  const words = (node) => (node.getAttribute("aria-label")
    || (node.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id)?.textContent || "").join(" ").trim()
    || node.textContent.trim()
    || [...node.querySelectorAll("img")].map((image) => image.alt).join(" ").trim());
  for (const field of all("input:not([type=hidden]),select,textarea")) {
    if (!field.labels?.length && !field.getAttribute("aria-label")) say("a field without a label", field);
  }
  for (const node of all("a[href],button,summary")) if (!words(node)) say("nothing says what this is", node);
  for (const image of all("img")) if (!image.hasAttribute("alt")) say("an image without alt", image);
  for (const drawing of all("svg")) {
    const hidden = drawing.closest("[aria-hidden=true]");
    if (!hidden && !(drawing.getAttribute("role") === "img" && drawing.getAttribute("aria-label"))) say("a drawing without words", drawing);
  }
  for (const part of all("[role=region],nav,section")) {
    if (shown(part) && !words(part) ) say("a landmark without a name", part);
  }
  for (const table of all("table")) {
    if (!table.caption) say("a table without a caption", table);
    if (!table.querySelector("th")) say("a table without heads", table);
  }
  for (const head of all("th")) if (!head.scope) say("a head without a scope", head);
  for (const box of all(".table-box,.sheet-box")) {
    if (box.scrollWidth > box.clientWidth + 1 && box.tabIndex < 0 && !box.querySelector("a,button")) say("a box that scrolls but not by keyboard", box);
  }

  // Contrast of text, WCAG 2.1 1.4.3.
  const colour = (text) => {
    let parts = text.match(/^rgba?\(([^)]+)\)/);
    if (parts) {
      const [r, g, b, a = 1] = parts[1].split(/[ ,/]+/).map(Number);
      return [r, g, b, a];
    }
    parts = text.match(/^color\(srgb ([^)]+)\)/);
    if (parts) {
      const [r, g, b, a = 1] = parts[1].split(/[ /]+/).map(Number);
      return [r * 255, g * 255, b * 255, a];
    }
    return [0, 0, 0, 0];
  };
  const over = (top, under) => top.slice(0, 3).map((value, at) => value * top[3] + under[at] * (1 - top[3])).concat(1);
  const behind = (node) => {
    const layers = [];
    for (let one = node; one; one = one.parentElement) {
      const back = colour(getComputedStyle(one).backgroundColor);
      if (back[3] > 0) layers.push(back);
      if (back[3] === 1) break;
    }
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((value) => value / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const seen = new Set();
  for (const node of all("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    const typed = /^(INPUT|TEXTAREA|SELECT)$/.test(node.tagName) && node.type !== "hidden";
    if ((!own && !typed) || !shown(node) || node.closest("svg,.visually-hidden,.skip")) continue;
    const style = getComputedStyle(node);
    const ground = behind(node);
    const [a, b] = [light(over(colour(style.color), ground)), light(ground)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const key = node.tagName + node.className + style.color + ground;
    if (ratio < least && !seen.has(key)) {
      seen.add(key);
      say("contrast " + ratio.toFixed(2) + " of " + style.color + " on " + ground.map(Math.round), node);
    }
  }
  return found;
})()

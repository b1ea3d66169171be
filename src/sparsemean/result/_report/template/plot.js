// One plot: drawn to the width it has, read by pointer or keyboard, its marks shared with all others.
const plots = [];
const REACH = 22; // pixels

// draw(width) returns { svg, marks: [{ mark, x, y }], emphasis(mark, picked) } or null where there is nothing to draw
function plot(id, name, words, draw) {
  const holder = find(".plot", document.getElementById(id));
  const area = html("div", {
    class: "area", tabindex: 0, role: "application", "aria-roledescription": "interactive plot",
    "aria-label": `${name}. Arrow keys move from mark to mark, Enter picks, Escape lets go.`,
  });
  const tip = html("div", { class: "tip", "aria-hidden": "true", hidden: "" });
  holder.append(area, tip);
  const self = { holder, area, tip, id, width: 0, at: -1, drawn: null, own: false };
  self.redraw = () => {
    self.width = Math.max(260, Math.round(area.clientWidth || holder.clientWidth || 680));
    self.drawn = draw(self.width);
    self.emphasis = svg("g", { class: "emphasis" });
    self.drawn.svg.append(self.emphasis);
    self.drawn.svg.setAttribute("role", "img");
    self.drawn.svg.setAttribute("aria-labelledby", `${id}-svg-title ${id}-svg-desc`);
    self.drawn.svg.prepend(svg("title", { id: `${id}-svg-title` }, name), svg("desc", { id: `${id}-svg-desc` }, words()));
    area.replaceChildren(self.drawn.svg);
    self.mark();
  };
  self.mark = () => {
    self.emphasis.replaceChildren();
    const both = same(state.near, state.picked) ? [state.picked] : [state.picked, state.near];
    for (const mark of both) {
      if (mark !== null) self.emphasis.append(...self.drawn.emphasis(mark, same(mark, state.picked)));
    }
    showTip(self);
  };
  pointing(self);
  keys(self);
  on("mark", self.mark);
  new ResizeObserver(() => {
    const width = Math.max(260, Math.round(area.clientWidth));
    if (area.clientWidth > 0 && Math.abs(width - self.width) > 1) self.redraw();
  }).observe(area);
  plots.push(self);
  return self;
}

function nearest(self, event) {
  const frame = self.drawn.svg.getBoundingClientRect();
  const times = self.width / frame.width;
  const [x, y] = [(event.clientX - frame.left) * times, (event.clientY - frame.top) * times];
  let best = null;
  let least = self.drawn.reach || REACH;
  for (const each of self.drawn.marks) {
    const away = each.distance ? each.distance(x, y) : Math.hypot(each.x - x, each.y - y);
    if (away < least) [best, least] = [each, away];
  }
  return best;
}

function pointing(self) {
  self.area.addEventListener("pointermove", (event) => {
    const found = nearest(self, event);
    self.own = found !== null;
    self.area.style.cursor = found === null ? "" : "pointer";
    point(found === null ? null : found.mark);
    showTip(self);
  });
  self.area.addEventListener("pointerleave", () => {
    self.own = false;
    point(null);
    showTip(self);
  });
  self.area.addEventListener("click", (event) => {
    const found = nearest(self, event);
    if (found !== null) pick(found.mark);
    else if (state.picked !== null) pick(state.picked);
  });
}

function keys(self) {
  const go = (to) => {
    const { marks } = self.drawn;
    if (!marks.length) return;
    self.at = Math.max(0, Math.min(marks.length - 1, to));
    self.own = true;
    point(marks[self.at].mark);
    showTip(self);
    announce(described(marks[self.at].mark));
  };
  const current = () => self.drawn.marks.findIndex((each) => same(each.mark, state.near || state.picked));
  self.area.addEventListener("focus", () => {
    if (self.area.matches(":focus-visible")) go(Math.max(0, current()));
  });
  self.area.addEventListener("blur", () => {
    self.own = false;
    point(null);
    showTip(self);
  });
  self.area.addEventListener("keydown", (event) => {
    const moves = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 10, PageUp: -10 };
    if (event.key in moves) go((current() < 0 ? -1 : current()) + moves[event.key]);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(self.drawn.marks.length - 1);
    else if ((event.key === "Enter" || event.key === " ") && state.near !== null) pick(state.near);
    else return;
    event.preventDefault();
  });
}

function showTip(self) {
  const found = self.own && state.near !== null && self.drawn.marks.find((each) => same(each.mark, state.near));
  self.tip.hidden = !found;
  if (!found) return;
  self.tip.replaceChildren(html("strong", {}, html("bdi", {}, titleOf(found.mark))), ...factsOf(found.mark).map((fact) => html("div", {}, fact)));
  const frame = self.drawn.svg.getBoundingClientRect();
  const outer = self.holder.getBoundingClientRect();
  const times = frame.width / self.width;
  const [x, y] = [found.x * times, frame.top - outer.top + found.y * times];
  const left = x + 14 + self.tip.offsetWidth > outer.width ? x - 14 - self.tip.offsetWidth : x + 14;
  self.tip.style.left = `${Math.max(0, Math.min(outer.width - self.tip.offsetWidth, left))}px`;
  self.tip.style.top = `${Math.max(-8, y - self.tip.offsetHeight - 10)}px`;
}

// What most plots draw for a mark: a ring, and the name where it was picked.
function ringed(places, width) {
  return (mark, picked) => {
    const at = places.get(`${mark.kind}${mark.id}`);
    if (at === undefined) return [];
    const out = [svg("circle", { cx: at.x, cy: at.y, r: 6.5 })];
    if (picked) out.push(nameBeside(titleOf(mark), at, width));
    return out;
  };
}

function nameBeside(name, at, width) {
  const before = at.x > width * 0.6;
  return svg("text", { x: at.x + (before ? -11 : 11), y: at.y + 4, "text-anchor": before ? "end" : "start" }, short(name, 22));
}

const placesOf = (marks) => new Map(marks.map((each) => [`${each.mark.kind}${each.mark.id}`, each]));
const short = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);
const canvas = (width, height) => svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
const dots = (points, kind) => svg("path", { class: `dots ${kind}`, d: points.map(({ x, y }) => `M${x.toFixed(1)} ${y.toFixed(1)}h0`).join("") });

// Dots above and below the null value in their colours, grey where not selected; those that the filter hides are faint.
function colouredDots(marks) {
  const group = svg("g", {});
  const unselected = marks.filter(({ mark }) => !state.selected[mark.id]);
  if (unselected.length) group.append(dots(unselected, "plain-dot left-out"));
  for (const [passes, extra] of [[0, " faded"], [1, ""]]) {
    for (const [side, kind] of [[-1, "down"], [1, "up"]]) {
      const chosen = marks.filter(({ mark }) => state.selected[mark.id] && state.passes[mark.id] === passes && (sideOf(mark.id) < 0 ? -1 : 1) === side);
      if (chosen.length) group.append(dots(chosen, kind + extra));
    }
  }
  return group;
}

// Names beside dots, the strongest first, where no other name and no other dot is in the way.
const NAMED = 10;
const PLACES = [["start", 9, 4], ["end", -9, 4], ["middle", 0, -9], ["middle", 0, 17]];
for (const far of [22, 38, 54]) PLACES.push(["end", -far, 4 - far / 2], ["start", far, 4 - far / 2], ["end", -far, 4 + far / 2], ["start", far, 4 + far / 2]);

// What is taken already comes as boxes: left, top, right and bottom.
function namesBeside(marks, box, words) {
  const group = svg("g", { class: "names" });
  const taken = marks.map(({ x, y }) => [x - 4, y - 4, x + 4, y + 4]).concat(words);
  const free = ([a, b, c, d], own) => a >= box.left && c <= box.width && b >= box.top - 10 && d <= box.bottom && taken.every(([e, f, g, h], k) => k === own || c < e || a > g || d < f || b > h);
  const named = new Set();
  for (const [k, { mark, x, y }] of marks.entries()) {
    if (named.size >= NAMED || k >= 4 * NAMED) break;
    const name = short(nameOf(mark.id), 18);
    const long = name.length * 6.6;
    for (const [anchor, dx, dy] of PLACES) {
      const left = x + dx - (anchor === "start" ? 0 : anchor === "end" ? long : long / 2);
      const frame = [left, y + dy - 12, left + long, y + dy + 4];
      if (!free(frame, k)) continue;
      taken.push(frame);
      named.add(mark.id);
      if (Math.hypot(dx, dy) > 18) group.append(svg("path", { class: "leader", d: `M${x} ${y}L${x + dx} ${y + dy - 4}` }));
      group.append(svg("text", { class: "label", x: x + dx, y: y + dy, "text-anchor": anchor }, name));
      break;
    }
  }
  return { group, named };
}

function nothing(width, words) {
  const root = canvas(width, 120);
  root.append(svg("text", { x: width / 2, y: 60, "text-anchor": "middle" }, words));
  return { svg: root, marks: [], emphasis: () => [] };
}

// The table: sorted, filtered, a page at a time, so that any number of features stays quick.
const sorting = { key: null, down: false };
const names = new Intl.Collator(undefined, { numeric: true });

function refilter() {
  const wanted = find("#find").value.trim().toLowerCase();
  const side = Number(find("#side").value);
  const any = state.selected.includes(1);
  state.order = [];
  for (let k = 0; k < count; k += 1) {
    const listed = any ? state.selected[k] === 1 : k < data.without_any; // the strongest, where none is selected
    const passes = listed && (side === 0 || sideOf(k) === side) && (wanted === "" || nameOf(k).toLowerCase().includes(wanted));
    state.passes[k] = passes ? 1 : 0;
    if (passes) state.order.push(k);
  }
  resort();
}

function resort() {
  const { key, down } = sorting;
  state.order.sort((a, b) => a - b); // as the table comes: strongest first
  if (key !== null) {
    const values = key === "p_value" ? logP : column[key];
    const text = columns.find((each) => each.key === key).kind === "name";
    const unknown = (value) => value === null || Number.isNaN(value);
    const compare = text ? (a, b) => names.compare(String(values[a]), String(values[b])) : (a, b) => (values[a] < values[b] ? -1 : values[a] > values[b] ? 1 : 0);
    const rank = (a, b) => {
      const [missingA, missingB] = [unknown(values[a]), unknown(values[b])];
      if (missingA || missingB) return missingA - missingB; // what is not known comes last either way
      return down ? compare(b, a) : compare(a, b);
    };
    state.order.sort(rank);
  }
  state.page = 0;
  tell("list");
}

function sortBy(key) {
  // three states: the way one looks first, the other way, as it came
  const first = ["name", "p"].includes(columns.find((each) => each.key === key).kind) || key === "entry_time" ? false : true;
  if (sorting.key !== key) [sorting.key, sorting.down] = [key, first];
  else if (sorting.down === first) sorting.down = !first;
  else sorting.key = null;
  for (const heading of all("#table thead th")) {
    const active = heading.dataset.key === sorting.key;
    if (active) heading.setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
    else heading.removeAttribute("aria-sort");
  }
  resort();
}

function tableRow(k) {
  const row = html("tr", { "data-feature": k });
  for (const each of columns) {
    if (each.kind === "name") {
      const button = html("button", { type: "button", "aria-pressed": "false", title: nameOf(k) }, html("bdi", {}, nameOf(k)));
      row.append(html("th", { scope: "row", class: "name" }, button));
    } else {
      const marked = each.key === "estimate" && isCentre(k) ? " centre" : "";
      const old = isEnd(each.key) && isOld(k) ? " old" : "";
      row.append(html("td", { class: each.kind + (each.extra ? " extra" : "") + marked + old }, cell(each, k)));
    }
  }
  return row;
}

const MOST_PRINTED = 500;

function fillTable(printed = false) {
  const chosen = printed ? state.order.slice(0, MOST_PRINTED) : shownNow();
  find("#table tbody").replaceChildren(...chosen.map(tableRow));
  const from = printed ? 0 : state.page * state.size;
  const of = state.order.length;
  const listed = state.selected.reduce((sum, each) => sum + each, 0) || Math.min(count, data.without_any);
  const filtered = of < listed ? ` that pass the filter, of ${withCommas(String(listed))}` : "";
  find("#none").hidden = stop().n > 0;
  find("#shown").textContent = of ? `${withCommas(String(from + 1))}–${withCommas(String(from + chosen.length))} of ${withCommas(String(of))} ${data.feature}s${filtered}` : `No ${data.feature} passes the filter.`;
  find("#back").disabled = state.page === 0;
  find("#on").disabled = from + state.size >= of;
  markTable();
}

function markTable() {
  for (const row of all("#table tbody tr")) {
    const mark = { kind: "feature", id: Number(row.dataset.feature) };
    const picked = same(mark, state.picked);
    row.classList.toggle("picked", picked);
    row.classList.toggle("near", same(mark, state.near));
    find("button", row).setAttribute("aria-pressed", String(picked));
  }
}

function startTable() {
  for (const heading of all("#table thead th")) find("button", heading).addEventListener("click", () => sortBy(heading.dataset.key));
  const body = find("#table tbody");
  const featureOf = (event) => {
    const row = event.target.closest("tr");
    return row === null ? null : { kind: "feature", id: Number(row.dataset.feature) };
  };
  body.addEventListener("click", (event) => featureOf(event) !== null && pick(featureOf(event)));
  body.addEventListener("pointerover", (event) => point(featureOf(event)));
  body.addEventListener("pointerleave", () => point(null));
  body.addEventListener("focusin", (event) => point(featureOf(event)));
  body.addEventListener("focusout", () => point(null));
  const more = find("#more");
  find("#table").classList.toggle("all", more === null);
  if (more !== null) more.addEventListener("click", () => {
    const all = find("#table").classList.toggle("all");
    more.setAttribute("aria-pressed", String(all));
    more.textContent = all ? "Show fewer" : `Show all ${columns.length}`;
  });
  let waiting = 0;
  for (const id of ["find", "side"]) {
    find(`#${id}`).addEventListener("input", () => {
      clearTimeout(waiting);
      if (count > 1000) waiting = setTimeout(refilter, 120);
      else refilter();
    });
  }
  find("#controls").addEventListener("submit", (event) => event.preventDefault());
  const turn = (by) => {
    state.page += by;
    tell("list");
  };
  find("#back").addEventListener("click", () => turn(-1));
  find("#on").addEventListener("click", () => turn(1));
  find("#size").addEventListener("change", () => {
    state.size = Number(find("#size").value);
    state.page = 0;
    tell("list");
  });
  on("list", () => fillTable());
  on("mark", markTable);
  window.addEventListener("beforeprint", () => fillTable(true));
  window.addEventListener("afterprint", () => fillTable());
}

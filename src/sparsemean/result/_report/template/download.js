// The table as a file, made here from the data in the page.
function save(text, type, ending) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = html("a", { href: address, download: `${data.file}-features.${ending}` });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);

// No spreadsheet is to take text for a formula: an apostrophe stands before it, and controls are
// written out, as in the files that sparsemean writes.
const harmless = (value) => (typeof value === "string" ? `${/^[=+\-@\t\r\n＝＋－＠]/.test(value) ? "'" : ""}${visible(value)}` : String(value));

function csvCell(value) {
  if (value === null || Number.isNaN(value)) return "";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number" && !Number.isFinite(value)) return value < 0 ? "-inf" : "inf";
  return quoted(harmless(value));
}

function asCsv() {
  const lines = [columns.map((each) => quoted(each.key)).join(",")];
  for (const k of state.order) lines.push(columns.map((each) => csvCell(each.values[k])).join(","));
  return `${lines.join("\n")}\n`;
}

// What is infinite or not known is null, as in the files that sparsemean writes.
function asJson() {
  const plain = (value) => (typeof value === "number" && !Number.isFinite(value) ? null : value);
  const selected = state.order.map((k) => Object.fromEntries(columns.map((each) => [each.key, plain(each.values[k])])));
  const apart = data.uncertified.feature.map((feature, k) => ({ feature, estimate: data.uncertified.estimate[k], p_adjusted: data.uncertified.p_adjusted[k], certified: false }));
  const settings = { rows: data.n_rows, columns: data.n_features, contamination: stop().fit ? data.contamination : stop().share, selection: data.selection, level: data.level, bad_rows: stop().fit ? data.bad_rows : null, seed: data.seed };
  return `${JSON.stringify({ ...settings, versions: data.versions, summary: data.summary, selected, not_certified: apart }, null, 2)}\n`;
}

// What GSEA takes: every listed feature, and the rest where the page has it, by Cliff's delta.
function asRanked() {
  const lines = Array.from({ length: count }, (_, k) => [nameOf(k), lean[k]]);
  data.rest.names.forEach((name, k) => lines.push([visible(name), data.rest.lean[k]]));
  return `${lines.sort((a, b) => b[1] - a[1]).map(([name, value]) => `${name.replace(/\s/g, "_")}\t${value}`).join("\n")}\n`;
}

const MOST_COPIED = 50;
function asMarkdown() {
  const plain = (text) => visible(text).replace(/[|\\`*_<]/g, (letter) => `\\${letter}`);
  const kept = columns.filter((each) => !each.extra);
  const line = (cells) => `| ${cells.join(" | ")} |`;
  const lines = [line(kept.map((each) => plain(each.heading))), line(kept.map((each) => (each.kind === "name" ? "---" : "--:")))];
  for (const k of state.order.slice(0, MOST_COPIED)) lines.push(line(kept.map((each) => plain(cell(each, k)))));
  const left = state.order.length - MOST_COPIED;
  return `${stop().verdict.map(plain).join("  \n")}\n\n${lines.join("\n")}\n${left > 0 ? `\n… and ${left} more\n` : ""}`;
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = html("textarea", {});
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce("Copied.");
  const said = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = said; }, 1500);
}

function startDownloads() {
  find("#csv").addEventListener("click", () => save(asCsv(), "text/csv;charset=utf-8", "csv"));
  find("#json").addEventListener("click", () => save(asJson(), "application/json", "json"));
  if (find("#rnk") !== null) find("#rnk").addEventListener("click", () => save(asRanked(), "text/tab-separated-values", "rnk"));
  find("#markdown").addEventListener("click", () => copy(asMarkdown(), find("#markdown")));
}

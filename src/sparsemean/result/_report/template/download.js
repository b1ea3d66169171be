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

function startDownloads() {
  find("#csv").addEventListener("click", () => save(asCsv(), "text/csv;charset=utf-8", "csv"));
  find("#json").addEventListener("click", () => save(asJson(), "application/json", "json"));
}

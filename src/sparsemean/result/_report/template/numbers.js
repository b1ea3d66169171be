// Numbers as they are shown, in the same way as in columns.py.
const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
const raised = (power) => String(power).replace(/./g, (letter) => RAISED[letter]);
const withCommas = (text) => text.replace(/^(-?\d+)/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));
const minus = (text) => text.replace(/-/g, "−");

function significant(value, digits) {
  if (value === 0) return "0";
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  const power = Number(exponent);
  if (power > -4 && power < 6) return withCommas(value.toFixed(Math.max(0, digits - 1 - power)));
  return `${mantissa} × 10${raised(power)}`;
}

// What has this logarithm to base 10, with two digits.
function powerOfTen(logarithm) {
  const power = Math.floor(logarithm);
  const mantissa = (10 ** (logarithm - power)).toFixed(1);
  return mantissa === "10.0" ? `1.0 × 10${raised(power + 1)}` : `${mantissa} × 10${raised(power)}`;
}

const LEAST_P = 1e-300; // from where on a double holds p-values; below them their logarithms are shown

function shown(value, kind, digits) {
  if (value === null || (typeof value === "number" && Number.isNaN(value))) return "–";
  if (kind === "name" || kind === "word") return String(value);
  if (kind === "flag") return value ? "yes" : "no";
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : "∞";
  switch (kind) {
    case "share": return minus(`${(100 * value).toFixed(1)} %`);
    case "count": return minus(withCommas(value.toFixed(0)));
    case "percent": return minus(`${withCommas(value.toFixed(1))} %`);
    case "rate": return minus(value.toFixed(3));
    case "p": return value < LEAST_P ? "< 10⁻³⁰⁰" : value >= 0.001 ? value.toFixed(3) : significant(value, 2);
    default: return minus(digits === null || Math.abs(value) >= 1e6 ? significant(value, 4) : withCommas(value.toFixed(digits)));
  }
}

const cell = (each, k) => (each.key === "p_value" && each.values[k] < LEAST_P ? powerOfTen(logP[k]) : shown(each.values[k], each.kind, each.digits));
const cellOf = Object.fromEntries(columns.map((each) => [each.key, (k) => cell(each, k)]));

function facts(k) {
  const said = [`${MEASURES[measureOf(k)] || (data.groups ? "shift" : isCentre(k) ? "centre, not mean," : "mean")} ${cellOf.estimate(k)}`];
  if (!Number.isNaN(column.ci_low[k])) said.push(`interval ${cellOf.ci_low(k)} to ${cellOf.ci_high(k)}`);
  said.push(`p adjusted ${cellOf.p_adjusted(k)}`);
  if (!Number.isNaN(column.max_contamination[k])) said.push(`selected up to ${cellOf.max_contamination(k)} bad ${data.each}`);
  return said;
}

const rowName = (k) => (data.rows.names === null ? `${data.row} ${data.rows.index[k]}` : data.rows.names[k]);

const KINDS = { "off together": "deviates together with others", "far in a few columns": `far off in a few ${data.feature}s`, "large throughout": `large in most ${data.feature}s` };

function rowFacts(k) {
  const said = [`score ${shown(data.rows.scores[k], "number", 2)}`, k < data.rows.n_shown ? KINDS[data.rows.kinds[k]] || data.rows.kinds[k] || "suspicious" : "not suspicious"];
  if (data.rows.names !== null) said.unshift(`number ${data.rows.index[k]}`);
  if (data.rows.groups !== null) said.push(`labelled ${data.groups[data.rows.groups[k]]}`);
  return said;
}

const titleOf = (mark) => (mark.kind === "row" ? rowName(mark.id) : nameOf(mark.id));
const factsOf = (mark) => (mark.kind === "row" ? rowFacts(mark.id) : facts(mark.id));
const described = (mark) => `${titleOf(mark)}: ${factsOf(mark).join(", ")}.`;

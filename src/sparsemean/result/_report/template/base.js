// What every part uses: the data, and elements made without ever parsing text as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const find = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
const SVG = "http://www.w3.org/2000/svg";

function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  for (const child of children || []) {
    if (child !== null) element.append(child); // a string becomes text, never markup
  }
  return element;
}

const html = (tag, attributes, ...children) => make(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => make(document.createElementNS(SVG, tag), attributes, children);

// null is not known; "inf" and "-inf" are infinite.
function decoded(values, kind) {
  if (kind === "name") return values;
  return values.map((value) => (value === null ? NaN : value === "inf" ? Infinity : value === "-inf" ? -Infinity : value));
}

const columns = data.columns.map(([key, heading, kind, digits, , extra], k) => (
  { key, heading, kind, digits, extra, values: decoded(data.table[k], kind) }
));
const column = Object.fromEntries(columns.map((each) => [each.key, each.values]));
const count = data.index.length;
// Characters that hide or turn round what a page shows are written out, as sparsemean.errors.visible does it.
const CONTROLS = /[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const ESCAPED = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const code = (letter) => letter.codePointAt(0).toString(16);
const spelt = (letter) => ESCAPED[letter] || (letter < "\u0100" ? `\\x${code(letter).padStart(2, "0")}` : `\\u${code(letter).padStart(4, "0")}`);
const visible = (text) => text.replace(CONTROLS, spelt);
const nameOf = (k) => visible(String(column.feature[k]));
const nullOf = (k) => (data.null === null ? 0 : data.null[k]);
const lean = column.beta || column.auc.map((share) => 2 * share - 1); // of groups the one says the other
const sideOf = (k) => Math.sign(lean[k]);
const isCentre = (k) => column.skewed !== undefined && column.skewed[k] === true;
const measureOf = (k) => (column.measure === undefined ? "" : column.measure[k]);
const MEASURES = { means: "difference of means", pairs: "pairs" };
const unit = data.unit;

function announce(words) {
  find("#status").textContent = words;
}

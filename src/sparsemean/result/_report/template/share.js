// The slider over the share of bad rows: what is selected, p-values and intervals follow it.
const MOVING = ["p_value", "log10_p", "p_adjusted", "q_value", "radius", "ci_low", "ci_high"].filter((key) => key in column);
const ofFit = Object.fromEntries(MOVING.map((key) => [key, column[key].slice()]));
const isEnd = (key) => key === "ci_low" || key === "ci_high";
const known = Object.fromEntries(data.shares.flatMap((each, at) => Object.keys(each).filter((key) => Array.isArray(each[key])).map((key) => [`${key} ${at}`, decoded(each[key], "")])));

// Intervals that are not known at this share are those of the fit, and are marked.
const isOld = (k) => !stop().fit && !(`ci_low ${state.at}` in known && k < known[`ci_low ${state.at}`].length);

function valueAt(key, k) {
  if (stop().fit || (isEnd(key) && isOld(k))) return ofFit[key][k];
  const values = known[`${key === "p_value" ? "log10_p" : key} ${state.at}`];
  if (values === undefined || k >= values.length) return NaN;
  return key === "p_value" ? 10 ** values[k] : values[k];
}

const countWords = () => `${withCommas(String(stop().n))} of ${withCommas(String(data.n_features))} ${data.feature}s`;

function moveTo(at) {
  state.at = at;
  const { share, fit } = stop();
  for (let k = 0; k < count; k += 1) {
    state.selected[k] = (fit ? k < data.n_selected : column.max_contamination[k] >= share - 1e-12) ? 1 : 0;
    for (const key of MOVING) column[key][k] = valueAt(key, k);
    logP[k] = fit ? logOfFit[k] : valueAt("log10_p", k);
  }
  const said = `${countWords()} at ${stop().words}`;
  find("#share-said").textContent = said;
  const verdict = find("#verdict");
  verdict.style.minHeight = `${verdict.offsetHeight}px`; // what is below stays where it is
  verdict.replaceChildren(...stop().verdict.map((line) => html("p", { class: "verdict" }, line)));
  const slider = find("#share");
  if (slider !== null) {
    slider.value = String(at);
    slider.setAttribute("aria-valuetext", said);
    find("#share-back").disabled = fit;
  }
  if (count) refilter();
}

function startShare() {
  const slider = find("#share");
  if (slider === null) return;
  slider.addEventListener("input", () => moveTo(Number(slider.value)));
  find("#share-back").addEventListener("click", () => {
    moveTo(FIT);
    slider.focus();
  });
}

// The strongest features of every test across all of them: the size of a dot is a share of non-zeros, its colour an effect.
const dotsHolder = document.getElementById("dot-data");
const dotsOf = dotsHolder === null ? null : JSON.parse(dotsHolder.textContent);

function startDots() {
  const figure = document.getElementById("dots");
  if (dotsOf === null || figure === null) return;
  figure.hidden = false;
  const { features, labels, shares, effects, called } = dotsOf;
  const [step, line] = [22, 24];
  const left = 16 + 7 * Math.min(22, Math.max(...labels.map((label) => label.length)));
  const top = 34 + 5.4 * Math.min(26, Math.max(...features.map((name) => String(name).length)));
  const [width, bottom] = [left + step * features.length + 170, top + line * labels.length];
  const largest = Math.max(1e-9, ...effects.flat().filter((value) => value !== null).map((value) => Math.min(MOST_FOLDS, Math.abs(value))));
  const root = canvas(width, Math.max(bottom + 16, top + 130));
  root.setAttribute("style", `width:${width}px;max-width:none`);
  root.setAttribute("role", "img");
  root.append(svg("title", {}, `Share of non-zero values and ${called}, by label`));
  features.forEach((name, k) => {
    const x = left + step * (k + 0.5);
    root.append(svg("text", { class: "label", x, y: top - 10, transform: `rotate(-45 ${x} ${top - 10})` }, short(visible(String(name)), 26), svg("title", {}, visible(String(name)))));
  });
  labels.forEach((label, j) => {
    const y = top + line * (j + 0.5);
    root.append(svg("path", { class: "gridline", d: `M${left} ${y}H${left + step * features.length}` }));
    root.append(svg("text", { class: "label", x: left - 10, y: y + 4, "text-anchor": "end" }, short(visible(label), 22)));
    features.forEach((name, k) => {
      const [share, effect] = [shares[j][k], effects[j][k]];
      if (share === null || effect === null) return;
      const strength = 0.12 + 0.88 * Math.min(1, Math.abs(effect) / largest);
      const words = `${visible(String(name))}, ${visible(label)}: ${shown(share, "share")} non-zero, ${called} ${shown(effect, "number", 2)}`;
      root.append(svg("circle", { class: effect < 0 ? "fill-down" : "fill-up", cx: left + step * (k + 0.5), cy: y, r: 1.5 + 8 * Math.sqrt(share), opacity: strength.toFixed(2) }, svg("title", {}, words)));
    });
  });
  const x = left + step * features.length + 44;
  [1, 0.5, 0.1].forEach((share, k) => {
    root.append(svg("circle", { class: "plain-dot", fill: "currentColor", cx: x, cy: top + 12 + 24 * k, r: 1.5 + 8 * Math.sqrt(share) }));
    root.append(svg("text", { x: x + 18, y: top + 16 + 24 * k }, `${100 * share} % non-zero`));
  });
  [["fill-up", "larger"], ["fill-down", "smaller"]].forEach(([kind, words], k) => {
    root.append(svg("circle", { class: kind, cx: x, cy: top + 84 + 22 * k, r: 6 }), svg("text", { x: x + 18, y: top + 88 + 22 * k }, words));
  });
  find(".wide", figure).append(root);
  find("figcaption p", figure).textContent = `Size: share of values that are not zero in the label. Colour: ${called}, the stronger the darker. Without guarantee.`;
}

// Several tests on one page: the one that the address names takes its place before anything reads it.
const choice = document.getElementById("choice");
const wanted = () => (/^#test-(\d+)$/.exec(location.hash) || [null, "0"])[1];
if (choice !== null) {
  const shown = wanted();
  const template = document.getElementById(`test-${shown}`);
  if (template !== null) document.getElementById("test").replaceChildren(template.content.cloneNode(true));
  choice.value = template === null ? "0" : shown;
  choice.addEventListener("change", () => {
    location.hash = `test-${choice.value}`;
  });
  // Links to sections change the address too, and show the same test.
  window.addEventListener("hashchange", () => /^#test-/.test(location.hash) && wanted() !== shown && location.reload());
}

// The tab Models: what two models say about the same points, side by side.

import { about, h, look } from "./dom.js";
import { board, known, state, watch, whenSeen } from "./state.js";
import { stage } from "./stage.js";
import { sourceMarks, targetMarks, verdict } from "./point.js";

export function mount(element) {
  const source = stage({ editor: board, label: () => "Source" });
  const columns = [0, 1].map((column) => {
    const view = stage({ label: () => "Target" });
    const model = h("select", { "aria-label": `Model ${column + 1}`, onchange: () => again() });
    model.append(...about.models.map((name) => h("option", { value: name }, name)));
    model.value = about.models[Math.min(column, about.models.length - 1)];
    const line = h("p", { class: "verdict", "data-model": String(column) });
    return { view, model, line, figure: h("figure", { class: "panel" }, h("figcaption", {}, model), view.element, line) };
  });
  const empty = h("p", { class: "hint" }, "Choose two images and set a point in the tab Point, or take an example.");
  const panels = h(
    "div",
    { class: "panels" },
    h("figure", { class: "panel" }, h("figcaption", {}, h("span", {}, "Source")), source.element, h("p", { class: "verdict" })),
    ...columns.map((column) => column.figure),
  );
  element.replaceChildren(
    h(
      "p",
      { class: "hint" },
      "The same points, asked of two models: a trained one and the backbone it started from. Look whether left and " +
        "right are told apart, and whether what is hidden is said to be. Each model has its own threshold.",
    ),
    ...(about.missing ? [h("p", { class: "hint", "data-missing": "" }, `${about.missing}.`)] : []),
    empty,
    panels,
  );

  const ready = () => Boolean(state.source && state.targets[0]);

  async function refresh() {
    if (!ready() || !state.points.length) {
      columns.forEach(({ view, line }) => {
        view.over("");
        view.mark(state.targets[0], []);
        line.textContent = "";
      });
      return;
    }
    const answer = await look("compare", { models: columns.map(({ model }) => model.value) });
    if (!answer) return;
    const name = known(state.targets[0])?.name ?? "";
    const row = state.points.findIndex((point) => point.number === state.selected);
    columns.forEach(({ view, line }, column) => {
      const { answers, heat, threshold } = answer.columns[column];
      view.over(heat, `Similarity of every place of ${name} to the selected point`);
      view.mark(state.targets[0], targetMarks(answers, name));
      line.textContent = row < 0 ? "" : `${verdict(state.points[row], answers[row])}, threshold ${threshold.toFixed(2)}`;
      line.classList.toggle("hidden-point", row >= 0 && !answers[row].visible);
    });
    document.dispatchEvent(new CustomEvent("geco:compared"));
  }

  watch(() => {
    empty.hidden = ready();
    panels.hidden = !ready();
    source.show(state.source);
    source.mark(state.source, sourceMarks());
    columns.forEach(({ view }) => view.show(state.targets[0]));
  });
  const key = () =>
    JSON.stringify([state.source, state.targets[0], state.selected, state.points.map((p) => [p.number, p.x, p.y, p.name])]);
  const again = whenSeen(element, key, refresh);
}

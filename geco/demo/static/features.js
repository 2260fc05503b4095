// The tab Features: the principal components of every photograph, as colours.

import { about, h, look } from "./dom.js";
import { state, whenSeen } from "./state.js";
import { stage } from "./stage.js";

export function mount(element) {
  const model = h("select", { "aria-label": "Model", onchange: () => again() });
  model.append(...about.models.map((name) => h("option", { value: name }, name)));
  const grid = h("div", { class: "panels small" });
  element.replaceChildren(
    h(
      "p",
      { class: "hint" },
      "The three strongest principal components of the features of all photographs together, as red, green and blue: " +
        "places of one colour have similar features.",
    ),
    h("div", { class: "tools" }, h("label", { class: "toggle" }, "model", model)),
    grid,
  );

  async function refresh() {
    if (!state.photographs.length) {
      grid.replaceChildren(h("p", { class: "hint" }, "Upload photographs or take an example first."));
      return;
    }
    const answer = await look("components", { model: model.value });
    if (!answer) return;
    grid.replaceChildren(
      ...state.photographs.map((entry) => {
        const photo = stage({ label: () => "Photograph" });
        photo.show(entry.id);
        const picture = h("img", {
          class: "components",
          src: answer.pictures[entry.id] ?? "",
          alt: `Principal components of ${entry.name} as colours`,
          style: { "--ratio": String(entry.width / entry.height) },
        });
        const both = h("div", { class: "both" }, photo.element, picture);
        return h("figure", { class: "panel", "data-photograph": entry.id }, h("figcaption", {}, entry.name), both);
      }),
    );
    document.dispatchEvent(new CustomEvent("geco:components"));
  }

  const again = whenSeen(element, () => state.photographs.map((entry) => entry.id).join(), refresh);
}

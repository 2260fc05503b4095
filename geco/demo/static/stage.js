// A stage: an image with a similarity map over it and numbered marks on it; with an editor, points are set and moved.

import { addressOf, h, say } from "./dom.js";
import { known, uploadAll, uploadFolder } from "./state.js";

const STEP = 0.004; // of the longer side that an arrow key moves a point; with Shift ten times as far
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const HINT =
  "Click to set a point. Keys: Enter sets one in the middle, arrow keys move the selected one (with Shift further), " +
  "N selects the next, Delete removes it, Control+Z undoes.";

// An editor says which image, points and selected number there are, and adds, moves, selects, removes, undoes.
export function stage({ editor = null, label }) {
  const image = h("img", { class: "pixels", alt: "", draggable: false });
  const heat = h("img", { class: "heat", alt: "", hidden: true, draggable: false });
  const marks = h("div", { class: "marks" });
  const element = h("div", { class: "stage" }, image, heat, marks);
  if (editor) {
    element.tabIndex = 0;
    element.setAttribute("role", "application");
    element.setAttribute("aria-description", HINT);
    listen(element, image, editor);
  }
  let shown = "";

  async function show(identity) {
    const about = known(identity);
    element.hidden = !about;
    if (!about) {
      shown = "";
      return;
    }
    element.style.setProperty("--ratio", String(about.width / about.height));
    image.alt = `${label()}: ${about.name}`;
    element.setAttribute("aria-label", image.alt);
    if (shown === identity) return;
    shown = identity;
    image.removeAttribute("src");
    const address = await addressOf(identity).catch(() => "");
    if (shown === identity) image.src = address;
  }

  function over(address, words = "") {
    heat.hidden = !address;
    if (address && heat.src !== address) heat.src = address;
    heat.alt = address ? words : "";
  }

  // Each mark has number, x, y, colour, words for those who do not see it, and perhaps kind, selected and text.
  function mark(identity, list) {
    const about = known(identity);
    marks.replaceChildren(
      ...(about ? list : []).map((entry) =>
        h(
          "span",
          {
            class: `mark ${entry.kind ?? "point"}${entry.selected ? " selected" : ""}`,
            role: "img",
            "aria-label": entry.words,
            title: entry.words,
            "data-number": String(entry.number),
            "data-x": String(entry.x),
            "data-y": String(entry.y),
            style: {
              left: `${(100 * entry.x) / about.width}%`,
              top: `${(100 * entry.y) / about.height}%`,
              "--colour": entry.colour,
            },
          },
          h("b", {}, entry.text ?? String(entry.number)),
        ),
      ),
    );
  }

  return { element, show, over, mark };
}

function place(element, event, entry) {
  const box = element.getBoundingClientRect();
  const { width, height } = entry;
  return [((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * height];
}

function listen(element, image, editor) {
  const entry = () => known(editor.image());
  const point = (number) => editor.points().find((other) => String(other.number) === String(number));
  let dragged = null;
  let released = false; // a point was just let go of: the click that follows sets no new one
  element.addEventListener("pointerdown", (event) => {
    released = false;
    if (event.button !== 0 || !entry()) return;
    const grabbed = event.target.closest(".mark.point");
    element.focus({ preventScroll: true });
    if (grabbed) {
      event.preventDefault();
      dragged = grabbed.dataset.number;
      element.setPointerCapture(event.pointerId);
      if (String(editor.selected()) !== dragged) editor.select(Number(dragged));
    }
  });
  element.addEventListener("pointermove", (event) => {
    if (dragged && point(dragged)) editor.move(point(dragged), ...place(element, event, entry()));
  });
  const drop = () => {
    released = dragged !== null;
    dragged = null;
  };
  element.addEventListener("pointerup", drop);
  element.addEventListener("pointercancel", drop);
  element.addEventListener("click", (event) => {
    if (released || event.target.closest(".mark.point") || !entry() || !image.src) return;
    editor.add(...place(element, event, entry()));
  });
  element.addEventListener("keydown", (event) => keys(event, editor));
}

function keys(event, editor) {
  const source = known(editor.image());
  const points = editor.points();
  if (!source || event.altKey) return;
  const point = points.find((other) => other.number === editor.selected());
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") editor.undo();
  else if (event.ctrlKey || event.metaKey) return;
  else if (event.key in ARROWS && point) {
    const [dx, dy] = ARROWS[event.key];
    const step = STEP * Math.max(source.width, source.height) * (event.shiftKey ? 10 : 1);
    const [x, y] = [point.x + dx * step, point.y + dy * step];
    editor.move(point, Math.min(Math.max(x, 0), source.width), Math.min(Math.max(y, 0), source.height));
  } else if (event.key === "Enter") editor.add(source.width / 2, source.height / 2);
  else if ((event.key === "Delete" || event.key === "Backspace") && point) editor.remove(point.number);
  else if (event.key.toLowerCase() === "n" && points.length) {
    const row = points.findIndex((other) => other.number === editor.selected());
    editor.select(points[(row + 1) % points.length].number);
  } else return;
  event.preventDefault();
}

// Files that are dropped on an element, or chosen with its button, go to a place on the board.
export function takesFiles(element, slot) {
  element.addEventListener("dragover", (event) => {
    event.preventDefault();
    element.classList.add("over");
  });
  element.addEventListener("dragleave", () => element.classList.remove("over"));
  element.addEventListener("drop", async (event) => {
    event.preventDefault();
    element.classList.remove("over");
    const files = [...(event.dataTransfer?.files ?? [])];
    const entries = [...(event.dataTransfer?.items ?? [])].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    if (entries.some((entry) => entry.isDirectory)) uploadFolder((await Promise.all(entries.map(inside))).flat());
    else if (files.length) uploadAll(files, slot);
    else say("only files can be dropped here; save the picture first, or copy and paste it");
  });
}

// The files in a folder that was dropped, and in its folders; of a file, itself. So many that reading them ends soon.
const MOST_FILES = 2000;

async function inside(entry) {
  if (entry.isFile) return [await new Promise((resolve, reject) => entry.file(resolve, reject))];
  const reader = entry.createReader();
  const files = [];
  while (files.length < MOST_FILES) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject)); // 100 at most
    if (!some.length) break;
    for (const child of some) files.push(...(await inside(child)));
  }
  return files;
}

export function folderButton(text) {
  const input = h("input", {
    type: "file",
    webkitdirectory: "",
    class: "file",
    "aria-label": text,
    onchange: async () => {
      await uploadFolder([...input.files]);
      input.value = "";
    },
  });
  return h("label", { class: "button" }, text, input);
}

export function fileButton(text, slot, multiple = false) {
  const input = h("input", {
    type: "file",
    accept: "image/*",
    multiple,
    class: "file",
    "aria-label": text,
    onchange: async () => {
      await uploadAll([...input.files], slot);
      input.value = "";
    },
  });
  return h("label", { class: "button" }, text, input);
}

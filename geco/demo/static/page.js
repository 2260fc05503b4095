// The page: opens a session, and fills the elements that gradio's tabs hold, whenever they appear.

import { open } from "./dom.js";
import { draw } from "./state.js";
import { mount as features } from "./features.js";
import { mount as labels } from "./labels.js";
import { mount as models } from "./models.js";
import { mount as parts } from "./parts.js";
import { mount as point } from "./point.js";
import { listenToPastes, mount as tray } from "./tray.js";

const MOUNTS = { tray, point, parts, labels, features, models };

function fill() {
  for (const element of document.querySelectorAll("[data-geco]:not([data-ready])")) {
    element.setAttribute("data-ready", "");
    MOUNTS[element.dataset.geco](element);
  }
}

await open();
listenToPastes();
// A file that is dropped beside a place for files would replace the page.
for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());
fill();
draw();
new MutationObserver(fill).observe(document.body, { childList: true, subtree: true });

// The page of the viewer. Whoever steers it from outside, or from the console, finds it as `regard`.

import { inlineSource } from "../source.js";
import { mount } from "../viewer/viewer.js";

mount(document.body, inlineSource()).then((viewer) => Object.assign(window, { regard: viewer }));

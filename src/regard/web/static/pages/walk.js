// The page of a walk.

import { inlineSource } from "../source.js";
import { mount } from "../walk.js";

mount(document.body, inlineSource());

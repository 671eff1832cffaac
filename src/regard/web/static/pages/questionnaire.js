// The page of a questionnaire.

import { mount } from "../questionnaire.js";
import { inlineSource } from "../source.js";

mount(document.body, inlineSource());

// The page of a report.

import { mount } from "../report.js";

mount(document.body);

// Files out of a page, without asking any other computer.

/** Gives a file to whoever looks at the page. @param {Blob} blob @param {string} name */
export function download(blob, name) {
  const link = document.createElement("a"), address = URL.createObjectURL(blob);
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

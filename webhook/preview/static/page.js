"use strict";

// A browser takes seconds to show a text of this many lines in a field, so longer texts are sent as files.
const MAX_LINES = 10000;

function send(field, file) {
  const transfer = new DataTransfer();
  transfer.items.add(file);
  document.getElementById(`${field.id}-file`).files = transfer.files;
  field.form.requestSubmit();
}

// Sends a file that the user drops on a field, or a long text that the user pastes.
for (const field of document.querySelectorAll("textarea")) {
  field.addEventListener("dragover", (event) => {
    event.preventDefault();
    field.classList.add("dropping");
  });
  field.addEventListener("dragleave", () => field.classList.remove("dropping"));
  field.addEventListener("drop", (event) => {
    field.classList.remove("dropping");
    const [file] = event.dataTransfer.files;
    if (!file) return;
    event.preventDefault();
    send(field, file);
  });
  field.addEventListener("paste", (event) => {
    const text = event.clipboardData.getData("text");
    if (text.split("\n").length <= MAX_LINES) return;
    event.preventDefault();
    send(field, new File([text], "pasted.yaml"));
  });
}

// Ctrl-Enter in a field submits the form.
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.form) {
    event.target.form.requestSubmit();
  }
});

// Adds a button "Copy" above each text that users may need elsewhere.
for (const block of document.querySelectorAll("pre.copy")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.textContent);
    button.textContent = "Copied";
  });
  block.before(button);
}

"use strict";

// A file that is dropped on a field becomes its text.
for (const field of document.querySelectorAll("textarea")) {
  field.addEventListener("dragover", (event) => {
    event.preventDefault();
    field.classList.add("dropping");
  });
  field.addEventListener("dragleave", () => field.classList.remove("dropping"));
  field.addEventListener("drop", async (event) => {
    field.classList.remove("dropping");
    const [file] = event.dataTransfer.files;
    if (!file) return;
    event.preventDefault();
    const text = await file.text();
    field.value = text;
    field.form.requestSubmit();
  });
}

// Ctrl-Enter in a field asks for the preview.
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.form) {
    event.target.form.requestSubmit();
  }
});

// A button that copies, above each text that somebody may want elsewhere.
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

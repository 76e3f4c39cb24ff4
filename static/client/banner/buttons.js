// The banner's buttons. One that has the focus is not taken away: it stays, disabled, until the focus has gone elsewhere.
// While one is being pressed none goes at all, because the others would move away under the person's finger.

/** @typedef {import("../messages.js").BannerAction} BannerAction */

export class Buttons {
  #box;
  #press;
  /** @type {Map<BannerAction, HTMLButtonElement>} */
  #buttons = new Map();
  /** @type {readonly BannerAction[]} */
  #wanted = [];
  #isPressing = false;

  /**
   * @param {HTMLElement} box
   * @param {(action: BannerAction) => void} press
   */
  constructor(box, press) {
    this.#box = box;
    this.#press = press;
    box.addEventListener("focusout", () => queueMicrotask(() => this.#sweep()));
    box.addEventListener("pointerdown", () => this.#pressing());
  }

  #pressing() {
    this.#isPressing = true;
    const listening = new AbortController();
    // A click comes after `pointerup`, in the same task.
    const released = () => {
      listening.abort();
      setTimeout(() => {
        this.#isPressing = false;
        this.#sweep();
      });
    };
    for (const type of ["pointerup", "pointercancel"]) window.addEventListener(type, released, { signal: listening.signal, capture: true });
  }

  /**
   * @param {readonly BannerAction[]} actions in this order, the first being the main one
   * @param {Readonly<Record<BannerAction, string>>} labels
   * @param {BannerAction | null} expanded the one whose form is open
   */
  show(actions, labels, expanded) {
    this.#wanted = actions;
    this.#sweep();
    actions.forEach((action, index) => {
      const button = this.#buttons.get(action) ?? this.#make(action);
      button.textContent = labels[action];
      button.classList.toggle("first", index === 0);
      button.removeAttribute("aria-disabled");
      if (action === "ask" || action === "keep") button.setAttribute("aria-expanded", String(action === expanded));
    });
    // Moved only where the order is another one: a button that is moved loses the focus.
    const inOrder = actions.map((action) => /** @type {HTMLButtonElement} */ (this.#buttons.get(action)));
    const present = [...this.#box.children].filter((child) => inOrder.includes(/** @type {HTMLButtonElement} */ (child)));
    if (present.some((child, index) => child !== inOrder[index])) for (const button of inOrder) if (!this.#hasFocus(button)) this.#box.append(button);
  }

  /** @param {BannerAction} action */
  #make(action) {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.action = action;
    button.setAttribute("part", `button ${action}`);
    button.addEventListener("click", () => button.ariaDisabled !== "true" && this.#press(action));
    this.#buttons.set(action, button);
    this.#box.append(button);
    return button;
  }

  #sweep() {
    for (const [action, button] of this.#buttons) {
      if (this.#wanted.includes(action)) continue;
      if (this.#isPressing || this.#hasFocus(button)) {
        button.setAttribute("aria-disabled", "true");
        button.classList.remove("first");
        continue;
      }
      button.remove();
      this.#buttons.delete(action);
    }
  }

  /** @param {HTMLElement} button */
  #hasFocus(button) {
    return /** @type {ShadowRoot} */ (button.getRootNode()).activeElement === button;
  }

  /** The first that does something. */
  focus() {
    this.#buttons.get(this.#wanted[0])?.focus();
  }

  /** @param {BannerAction} action */
  focusOn(action) {
    this.#buttons.get(action)?.focus();
  }
}

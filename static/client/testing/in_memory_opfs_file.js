/**
 * @typedef {import("../testing.js").OpfsStep} OpfsStep
 * @typedef {() => unknown} Hook
 * @typedef {{text: string, lastModified: number, version: number, writers: number, isExclusive: boolean}} Entry
 * @typedef {{files: Map<string, Entry>, folders: Map<string, Folder>, path: string}} Folder
 */

/**
 * An origin's private file system in memory, seen from one file in it. `root` is what `navigator.storage.getDirectory()`
 * gives in a browser; `read`, `write` and `delete` are the test's own hands, which nothing delays and nothing fails.
 */
export class InMemoryOpfsFile {
  #disk;
  #folders;
  #name;

  /**
   * @param {{path?: string, contents?: string, clock?: {now(): number}, exclusiveWriters?: boolean}} [options]
   *   `clock` dates the files; `exclusiveWriters: false` is a browser whose `createWritable` does not know `mode`
   */
  constructor({ path = "project/.lock", contents, clock = Date, exclusiveWriters = true } = {}) {
    this.#disk = new Disk(clock, exclusiveWriters);
    const parts = path.split("/");
    this.#name = /** @type {string} */ (parts.pop());
    this.#folders = parts;
    if (contents !== undefined) this.#put(contents);
  }

  /** @returns {FileSystemDirectoryHandle} */
  get root() {
    return asHandle(new FolderHandle(this.#disk, this.#disk.root, ""));
  }

  /** The paths of all files. */
  get paths() {
    return pathsIn(this.#disk.root);
  }

  /** Every path at which a file was ever made, once each. */
  get everMade() {
    return [...this.#disk.everMade];
  }

  /** @returns {Promise<string | undefined>} nothing when there is no file */
  async read() {
    return this.#folder()?.files.get(this.#name)?.text;
  }

  /** @param {string} text */
  async write(text) {
    this.#put(text);
  }

  async delete() {
    this.#folder()?.files.delete(this.#name);
  }

  /**
   * Lets a step fail, as often as said, or until `heal`.
   *
   * @param {OpfsStep} step
   * @param {{error?: unknown, times?: number}} [how]
   */
  fail(step, { error = new DOMException("The disk is broken", "UnknownError"), times = Infinity } = {}) {
    let left = times;
    this.before(step, () => {
      if (left <= 0) return;
      left -= 1;
      throw error;
    });
  }

  /**
   * Runs code before a step takes effect, which waits for it: `file.before("close", () => clock.sleep(300))`.
   *
   * @param {OpfsStep} step
   * @param {Hook} hook
   */
  before(step, hook) {
    this.#disk.before.set(step, hook);
  }

  /**
   * Runs code after a step took effect and before it answers.
   *
   * @param {OpfsStep} step
   * @param {Hook} hook
   */
  after(step, hook) {
    this.#disk.after.set(step, hook);
  }

  /** Ends all failures and delays. */
  heal() {
    this.#disk.before.clear();
    this.#disk.after.clear();
  }

  #folder() {
    let folder = /** @type {Folder | undefined} */ (this.#disk.root);
    for (const name of this.#folders) folder = folder?.folders.get(name);
    return folder;
  }

  /** @param {string} text */
  #put(text) {
    let folder = this.#disk.root;
    for (const name of this.#folders) folder = this.#disk.makeFolder(folder, name);
    this.#disk.put(this.#disk.makeFile(folder, this.#name), text);
  }
}

class Disk {
  /** @type {Map<OpfsStep, Hook>} */
  before = new Map();
  /** @type {Map<OpfsStep, Hook>} */
  after = new Map();
  /** @type {Set<string>} */
  everMade = new Set();
  /** @type {Folder} */
  root = { files: new Map(), folders: new Map(), path: "" };

  /**
   * @param {{now(): number}} clock
   * @param {boolean} exclusiveWriters
   */
  constructor(clock, exclusiveWriters) {
    this.clock = clock;
    this.exclusiveWriters = exclusiveWriters;
  }

  /**
   * @template T
   * @param {OpfsStep} step
   * @param {() => T} effect
   */
  async step(step, effect) {
    await this.before.get(step)?.();
    const result = effect();
    await this.after.get(step)?.();
    return result;
  }

  /**
   * @param {Folder} parent
   * @param {string} name
   */
  makeFolder(parent, name) {
    const folder = parent.folders.get(name) ?? { files: new Map(), folders: new Map(), path: `${parent.path}${name}/` };
    parent.folders.set(name, folder);
    return folder;
  }

  /**
   * @param {Folder} folder
   * @param {string} name
   */
  makeFile(folder, name) {
    const entry = folder.files.get(name) ?? { text: "", lastModified: this.clock.now(), version: 0, writers: 0, isExclusive: false };
    folder.files.set(name, entry);
    this.everMade.add(`${folder.path}${name}`);
    return entry;
  }

  /**
   * @param {Entry} entry
   * @param {string} text
   */
  put(entry, text) {
    entry.text = text;
    entry.version += 1;
    entry.lastModified = this.clock.now();
  }
}

class FolderHandle {
  kind = "directory";
  #disk;
  #folder;

  /**
   * @param {Disk} disk
   * @param {Folder} folder
   * @param {string} name
   */
  constructor(disk, folder, name) {
    this.#disk = disk;
    this.#folder = folder;
    this.name = name;
  }

  /**
   * @param {string} name
   * @param {{create?: boolean}} [options]
   */
  getDirectoryHandle(name, { create = false } = {}) {
    return this.#disk.step("getDirectoryHandle", () => {
      mustBeName(name);
      if (this.#folder.files.has(name)) throw new DOMException(`${name} is a file`, "TypeMismatchError");
      if (!create && !this.#folder.folders.has(name)) throw notFound(name);
      return new FolderHandle(this.#disk, this.#disk.makeFolder(this.#folder, name), name);
    });
  }

  /**
   * @param {string} name
   * @param {{create?: boolean}} [options]
   */
  getFileHandle(name, { create = false } = {}) {
    return this.#disk.step("getFileHandle", () => {
      mustBeName(name);
      if (this.#folder.folders.has(name)) throw new DOMException(`${name} is a folder`, "TypeMismatchError");
      if (!create && !this.#folder.files.has(name)) throw notFound(name);
      if (create) this.#disk.makeFile(this.#folder, name);
      return new FileHandle(this.#disk, this.#folder, name);
    });
  }

  /**
   * @param {string} name
   * @param {{recursive?: boolean}} [options]
   */
  removeEntry(name, { recursive = false } = {}) {
    return this.#disk.step("removeEntry", () => {
      mustBeName(name);
      const folder = this.#folder.folders.get(name);
      if (folder) {
        if (!recursive && folder.files.size + folder.folders.size > 0) {
          throw new DOMException(`${name} is not empty`, "InvalidModificationError");
        }
        return void this.#folder.folders.delete(name);
      }
      const entry = this.#folder.files.get(name);
      if (!entry) throw notFound(name);
      if (entry.writers > 0) throw isOpen(name);
      this.#folder.files.delete(name);
    });
  }

  async *keys() {
    yield* [...this.#folder.folders.keys(), ...this.#folder.files.keys()];
  }

  async *entries() {
    for (const name of this.#folder.folders.keys()) yield [name, await this.getDirectoryHandle(name)];
    for (const name of this.#folder.files.keys()) yield [name, await this.getFileHandle(name)];
  }

  async *values() {
    for await (const [, handle] of this.entries()) yield handle;
  }

  [Symbol.asyncIterator]() {
    return this.entries();
  }
}

class FileHandle {
  kind = "file";
  #disk;
  #folder;

  /**
   * @param {Disk} disk
   * @param {Folder} folder
   * @param {string} name
   */
  constructor(disk, folder, name) {
    this.#disk = disk;
    this.#folder = folder;
    this.name = name;
  }

  getFile() {
    return this.#disk.step("getFile", () => new FileSnapshot(this.#disk, this.#entry(), this.name));
  }

  /** @param {{keepExistingData?: boolean, mode?: string}} [options] */
  createWritable(options = {}) {
    return this.#disk.step("createWritable", () => {
      const entry = this.#entry();
      const mode = (this.#disk.exclusiveWriters ? options.mode : undefined) ?? "siloed";
      if (mode !== "siloed" && mode !== "exclusive") throw new TypeError(`There is no mode ${mode}`);
      if (entry.isExclusive || (mode === "exclusive" && entry.writers > 0)) throw isOpen(this.name);
      return new Writer(this.#disk, entry, mode === "exclusive", options.keepExistingData ? entry.text : "");
    });
  }

  #entry() {
    const entry = this.#folder.files.get(this.name);
    if (!entry) throw notFound(this.name);
    return entry;
  }
}

/** What `getFile` gives: the file as it was. As in browsers, it cannot be read once the file has changed. */
class FileSnapshot {
  type = "";
  #disk;
  #entry;
  #version;
  #text;

  /**
   * @param {Disk} disk
   * @param {Entry} entry
   * @param {string} name
   */
  constructor(disk, entry, name) {
    this.#disk = disk;
    this.#entry = entry;
    this.#version = entry.version;
    this.#text = entry.text;
    this.name = name;
    this.lastModified = entry.lastModified;
    this.size = new TextEncoder().encode(entry.text).length;
  }

  text() {
    return this.#disk.step("text", () => {
      if (this.#entry.version !== this.#version) throw new DOMException("The file has changed", "NotReadableError");
      return this.#text;
    });
  }

  async arrayBuffer() {
    return new TextEncoder().encode(await this.text()).buffer;
  }
}

/** What is written is seen by others when it is closed, all at once. */
class Writer {
  #disk;
  #entry;
  #text;
  #isOpen = true;

  /**
   * @param {Disk} disk
   * @param {Entry} entry
   * @param {boolean} isExclusive
   * @param {string} text
   */
  constructor(disk, entry, isExclusive, text) {
    this.#disk = disk;
    this.#entry = entry;
    this.#text = text;
    entry.writers += 1;
    entry.isExclusive = isExclusive;
  }

  /** @param {unknown} data */
  write(data) {
    return this.#disk.step("write", () => {
      this.#mustBeOpen();
      if (typeof data !== "string") throw new TypeError("InMemoryOpfsFile writes text only");
      this.#text += data;
    });
  }

  close() {
    return this.#disk.step("close", () => {
      this.#mustBeOpen();
      this.#disk.put(this.#entry, this.#text);
      this.#end();
    });
  }

  async abort() {
    if (this.#isOpen) this.#end();
  }

  #end() {
    this.#isOpen = false;
    this.#entry.writers -= 1;
    this.#entry.isExclusive = false;
  }

  #mustBeOpen() {
    if (!this.#isOpen) throw new TypeError("The writer is closed");
  }
}

/** @param {FolderHandle} handle */
function asHandle(handle) {
  return /** @type {FileSystemDirectoryHandle} */ (/** @type {unknown} */ (handle));
}

/**
 * @param {Folder} folder
 * @returns {string[]}
 */
function pathsIn(folder) {
  const here = [...folder.files.keys()].map((name) => `${folder.path}${name}`);
  return [...here, ...[...folder.folders.values()].flatMap(pathsIn)];
}

/** @param {string} name */
function mustBeName(name) {
  if (name === "" || name === "." || name === ".." || /[/\\]/.test(name)) throw new TypeError("Name is not allowed.");
}

/** @param {string} name */
function notFound(name) {
  return new DOMException(`${name} was not found`, "NotFoundError");
}

/** @param {string} name */
function isOpen(name) {
  return new DOMException(`${name} is open for writing`, "NoModificationAllowedError");
}

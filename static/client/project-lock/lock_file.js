// The fallback: the file `project/.lock` in the origin's private file system (OPFS).
//
// A file is no lock, so taking it must be safe by itself. Where the browser has exclusive writers (Chromium), reading,
// deciding and writing happen under one. Elsewhere whoever has written waits for SETTLE_MS and reads again: the lock is
// its own only if its record is still there. That is safe however slow the disk is, because a writer that needed longer
// than SETTLE_MS from its first look to its write does not count its write: someone may have settled in between. It
// leaves that record where it is. The record keeps others out until it is overdue, which is later than the end of the
// lease it may have overwritten; removing it would let a third one in beside that lease's holder.

import { ProjectLockError, failure } from "./errors.js";
import { MAX_LEASE_MS, judge, parse } from "./lock_record.js";
import { ANSWER_MS, Lifetime, Stopwatch, sleep } from "./timing.js";

/** @typedef {import("../project-lock.js").ProjectLockClock} ProjectLockClock */
/** @typedef {import("../project-lock.js").ProjectLockOperation} ProjectLockOperation */
/** @typedef {import("./lock_record.js").Found} Found */

const FOLDER = "project";
const NAME = ".lock";

/** The same for everyone: it is both how long a writer may take and how long it waits before it reads again. */
export const SETTLE_MS = 200;

/** A file this close to its end is left to run out: a removal that is slow could hit its next holder's file. */
const LEAVE_MS = ANSWER_MS;

const READ_TRIES = 3;

export class LockFile {
  #root;
  #clock;
  /** @type {Promise<unknown>} */
  #last = Promise.resolve();

  /**
   * @param {() => Promise<FileSystemDirectoryHandle>} root finds the folder that `project/` is in
   * @param {ProjectLockClock} clock
   */
  constructor(root, clock) {
    this.#root = root;
    this.#clock = clock;
  }

  /**
   * Takes the lock. Fails with `fallback-conflict` while someone else has it.
   *
   * @param {{leaseId: string, ownerId: string, span: number, mine?: string, remake?: boolean, onUnreadable: (why: string) => void}} claim
   *   `mine` is the lease this service held before, whose file may still be there; `remake` allows to replace a file
   *   that cannot be read; `onUnreadable` is told of a file that was replaced because it is not a lock file
   * @returns {Promise<Lifetime>}
   */
  claim(claim) {
    return this.#inTurn(() => this.#claim(claim));
  }

  /** @param {Parameters<LockFile["claim"]>[0]} claim */
  async #claim({ leaseId, ownerId, span, mine, remake, onUnreadable }) {
    const folder = await this.#folder();
    const sinceFirstLook = new Stopwatch(this.#clock);
    const look = async () => {
      const found = await this.#read(folder, "acquire").catch((error) => {
        if (remake) return /** @type {Found} */ ({ kind: "unreadable", why: error.message });
        throw error;
      });
      return this.#mustBeFree(found, mine);
    };
    // Looked at before it is opened: an open writer would be in the way of a holder that renews or releases.
    await look();
    const { writer, exclusive } = await this.#open(folder);
    const lifetime = await this.#write(writer, "acquire", async () => {
      const unreadable = await look();
      if (unreadable !== undefined) onUnreadable(unreadable);
      return { leaseId, ownerId, lifetime: new Lifetime(this.#clock, span) };
    });
    if (!exclusive) await this.#settle(folder, leaseId, sinceFirstLook);
    if (lifetime.isOver()) throw failure("fallback-write-failed", "acquire", `${FOLDER}/${NAME} was written too slowly`);
    return lifetime;
  }

  /**
   * Moves the end of a lease that is in the file. Fails with `lease-stale` when it is not there any more. If the old
   * lifetime is over when this returns, the lease is lost all the same: the write may have come so late that it replaced
   * the file of someone who had found the old one overdue.
   *
   * @param {{leaseId: string, ownerId: string, span: number, lifetime: Lifetime}} lease
   * @returns {Promise<Lifetime>}
   */
  extend(lease) {
    return this.#inTurn(() => this.#extend(lease));
  }

  /** @param {Parameters<LockFile["extend"]>[0]} lease */
  async #extend({ leaseId, ownerId, span, lifetime }) {
    const stale = () => failure("lease-stale", "renew", `${FOLDER}/${NAME} is not this lease's any more`);
    const folder = await this.#existingFolder("renew");
    if (folder === undefined || !isOf(await this.#read(folder, "renew"), leaseId)) throw stale();
    const { writer } = await this.#open(folder, "renew");
    return this.#write(writer, "renew", async () => {
      if (!isOf(await this.#read(folder, "renew"), leaseId) || lifetime.isOver()) throw stale();
      return { leaseId, ownerId, lifetime: new Lifetime(this.#clock, span, lifetime.expiresAt) };
    });
  }

  /**
   * Removes the file if it is this lease's. Nothing happens to a file that is someone else's.
   *
   * @param {{leaseId: string, lifetime: Lifetime}} lease
   */
  remove({ leaseId, lifetime }) {
    return this.#inTurn(async () => {
      const folder = await this.#existingFolder("release");
      if (folder === undefined || !isOf(await this.#read(folder, "release"), leaseId)) return;
      if (lifetime.left() < LEAVE_MS) return;
      try {
        await folder.removeEntry(NAME);
      } catch (error) {
        if (nameOf(error) === "NotFoundError") return;
        throw failure("fallback-write-failed", "release", `${FOLDER}/${NAME} cannot be removed`, error);
      }
    });
  }

  /**
   * Fails with `fallback-conflict` if someone else has the file. A file that is not there, cannot be reached or is no
   * lock file says nothing: this is for those who hold the Web Lock already.
   *
   * @param {string} [mine]
   */
  async mustNotBeTaken(mine) {
    const found = await this.#existingFolder("acquire")
      .then((folder) => folder && this.#read(folder, "acquire"))
      .catch(() => undefined);
    if (found) this.#mustBeFree(found, mine);
  }

  /**
   * One after the other, so that giving back a claim that came too late cannot overtake the next claim.
   *
   * @template T
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  #inTurn(work) {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => {});
    return turn;
  }

  async #folder() {
    try {
      return await (await this.#root()).getDirectoryHandle(FOLDER, { create: true });
    } catch (error) {
      throw failure("fallback-open-failed", "acquire", `The folder ${FOLDER}/ cannot be opened`, error);
    }
  }

  /**
   * @param {ProjectLockOperation} operation
   * @returns {Promise<FileSystemDirectoryHandle | undefined>}
   */
  async #existingFolder(operation) {
    try {
      return await (await this.#root()).getDirectoryHandle(FOLDER);
    } catch (error) {
      if (nameOf(error) === "NotFoundError") return undefined;
      throw failure("fallback-read-failed", operation, `The folder ${FOLDER}/ cannot be opened`, error);
    }
  }

  /**
   * @param {FileSystemDirectoryHandle} folder
   * @param {ProjectLockOperation} operation
   * @param {number} [tries]
   * @returns {Promise<Found>}
   */
  async #read(folder, operation, tries = READ_TRIES) {
    try {
      return await parse(await (await folder.getFileHandle(NAME)).getFile());
    } catch (error) {
      const name = nameOf(error);
      if (name === "NotFoundError") return { kind: "none" };
      // Written by someone else while it was read: what is there now is what counts.
      if (name === "NotReadableError" && tries > 1) return this.#read(folder, operation, tries - 1);
      throw failure("fallback-read-failed", operation, `${FOLDER}/${NAME} cannot be read`, error);
    }
  }

  /**
   * @param {Found} found
   * @param {string} [mine]
   * @returns {string | undefined} why the file is not a lock file, if there is one that is none
   */
  #mustBeFree(found, mine) {
    const verdict = judge(found, this.#clock.now(), mine);
    if (verdict.kind === "taken") {
      throw failure("fallback-conflict", "acquire", `${FOLDER}/${NAME} is someone else's for ${verdict.leftMs} ms more`);
    }
    return verdict.kind === "unreadable" ? verdict.why : undefined;
  }

  /**
   * @param {FileSystemDirectoryHandle} folder
   * @param {ProjectLockOperation} [operation]
   */
  async #open(folder, operation = "acquire") {
    let exclusive = false;
    const options = {
      keepExistingData: false,
      // Browsers read this only if they know it, which is how we learn that they do.
      get mode() {
        exclusive = true;
        return "exclusive";
      },
    };
    try {
      const file = await folder.getFileHandle(NAME, { create: operation === "acquire" });
      return { writer: await file.createWritable(options), exclusive };
    } catch (error) {
      throw cannotOpen(error, operation);
    }
  }

  /**
   * Writes what `decide` says, or nothing if it throws.
   *
   * @param {FileSystemWritableFileStream} writer
   * @param {ProjectLockOperation} operation
   * @param {() => Promise<{leaseId: string, ownerId: string, lifetime: Lifetime}>} decide
   */
  async #write(writer, operation, decide) {
    try {
      const { leaseId, ownerId, lifetime } = await decide();
      // After the clock was set back, a renewed lease may end later than others believe of any record.
      const expiresAt = Math.min(lifetime.expiresAt, this.#clock.now() + MAX_LEASE_MS);
      await writer.write(JSON.stringify({ leaseId, ownerId, expiresAt }));
      await writer.close();
      return lifetime;
    } catch (error) {
      // A writer left open would keep everyone out until the page is gone.
      await writer.abort().catch(() => {});
      if (error instanceof ProjectLockError) throw error;
      throw failure("fallback-write-failed", operation, `${FOLDER}/${NAME} cannot be written`, error);
    }
  }

  /**
   * @param {FileSystemDirectoryHandle} folder
   * @param {string} leaseId
   * @param {Stopwatch} sinceFirstLook
   */
  async #settle(folder, leaseId, sinceFirstLook) {
    const lost = () => failure("fallback-conflict", "acquire", `Someone else took ${FOLDER}/${NAME} at the same time`);
    if (sinceFirstLook.elapsed() > SETTLE_MS) throw lost();
    await sleep(this.#clock, SETTLE_MS);
    if (!isOf(await this.#read(folder, "acquire"), leaseId)) throw lost();
  }
}

/**
 * @param {Found} found
 * @param {string} leaseId
 */
function isOf(found, leaseId) {
  return found.kind === "record" && found.leaseId === leaseId;
}

/**
 * @param {unknown} error
 * @param {ProjectLockOperation} operation
 */
function cannotOpen(error, operation) {
  const name = nameOf(error);
  if (operation === "renew") return failure("fallback-write-failed", operation, `${FOLDER}/${NAME} cannot be opened`, error);
  if (name === "NoModificationAllowedError") {
    return failure("fallback-conflict", operation, `Someone else is writing ${FOLDER}/${NAME}`, error);
  }
  // Removed by its holder between our look and our opening it.
  if (name === "NotFoundError") return failure("fallback-write-failed", operation, `${FOLDER}/${NAME} has gone`, error);
  return failure("fallback-open-failed", operation, `${FOLDER}/${NAME} cannot be made or opened`, error);
}

/** @param {unknown} error */
function nameOf(error) {
  return error instanceof Error ? error.name : undefined;
}

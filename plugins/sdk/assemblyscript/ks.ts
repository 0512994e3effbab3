// Plugins of kscheduler in AssemblyScript: extend Plugin, register it, and export what ./exports has.

import { Value } from "./msgpack";
import { Rows } from "./table";

export { Value } from "./msgpack";
export * from "./table";
export { event, log, now } from "./host";

/** Extension points, as in the ABI. */
export enum Point {
  PreEnqueue = 1,
  PreFilter = 2,
  Filter = 3,
  PreScore = 5,
  Score = 6,
  NormalizeScore = 7,
  Reserve = 8,
  Unreserve = 9,
  Permit = 10,
  PreBind = 11,
  PostBind = 12,
}

/** How a question ended. */
export enum Code {
  Success,
  Error,
  Unschedulable,
  Unresolvable,
  Wait,
  Skip,
  Pending,
}

/** What the plugin is, as in the ABI's ks_describe. */
export class Description {
  depends: string[] = ["other"]; // what answers follow from: "pod", "node", "usage" and so on
  pod: string[] = []; // parts of the pod
  normalize: string = "none";

  constructor(
    readonly name: string,
    readonly points: Point[],
  ) {}
}

/** Yours to extend: write the methods you need. */
export abstract class Plugin {
  /** Returns what is wrong with the configuration, or "". */
  configure(config: string): string {
    return "";
  }

  /** Ask for columns of the table here. */
  abstract describe(): Description;

  /** All pods on a row, whenever they have changed: a list of maps. See wantPods. */
  pods(row: i32, pods: Value): void {}

  /** `verdicts` has an entry for each row asked about, all 0. */
  filter(q: Question, verdicts: StaticArray<u8>): void {}

  /** Likewise. At NormalizeScore raw scores come in. */
  score(q: Question, scores: StaticArray<i64>): void {}

  /** All other points. */
  status(q: Question): Code {
    return Code.Success;
  }
}

class Nothing extends Plugin {
  describe(): Description {
    return new Description("Nothing", []);
  }
}

let registered: Plugin = new Nothing();

export function register(plugin: Plugin): void {
  registered = plugin;
}

export function plugin(): Plugin {
  return registered;
}

export class Reason {
  constructor(
    readonly code: Code,
    readonly text: string,
  ) {}
}

/** A question about one pod, at one extension point. */
export class Question {
  failure: string = "";
  said: string[] = [];
  reasons: Reason[] = [];
  remembered: Uint8Array | null = null;
  waitMs: i32 = 0; // how long a pod waits whose status is Wait

  constructor(
    readonly point: Point,
    readonly pod: Value, // a map, pod.get("labels"), with the parts that were asked for
    readonly message: Value, // all of it: "node" and "row" in the binding cycle
    readonly rows: Rows, // that are asked about
  ) {}

  /** null if the pod has no such label. */
  podLabel(key: string): string | null {
    const value = this.pod.get("labels").get(key);
    return value.isThere ? value.text : null;
  }

  podRequest(resource: string): i64 {
    return this.pod.get("requests").get(resource).int();
  }

  /** What `remember` kept at an earlier point of this pod's cycle. */
  get state(): Uint8Array {
    const value = this.pod.get("state");
    const bytes = new Uint8Array(value.byteCount);
    memory.copy(bytes.dataStart, value.bytes, value.byteCount);
    return bytes;
  }

  remember(state: Uint8Array): void {
    this.remembered = state;
  }

  /** This question failed. */
  fail(why: string): void {
    this.failure = why;
  }

  /** A reason for the code that `status` returns. */
  say(reason: string): void {
    this.said.push(reason);
  }

  /** In `filter`: the verdict that rejects a row. Ask for each reason once. */
  reason(code: Code, text: string): u8 {
    this.reasons.push(new Reason(code, text));
    return <u8>this.reasons.length;
  }
}

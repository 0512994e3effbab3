// Prefer the nodes whose name ends with the same digit as the pod's.

import * as ks from "../ks";

export * from "../exports";

/** The last digit of a name, or -1. */
function lastDigit(name: string): i32 {
  const last = name.length == 0 ? 0 : name.charCodeAt(name.length - 1);
  return last >= 0x30 && last <= 0x39 ? last - 0x30 : -1;
}

class NodeNumber extends ks.Plugin {
  private reverse: bool = false;

  configure(config: string): string {
    this.reverse = config == '{"reverse":true}';
    if (config == "" || this.reverse || config == '{"reverse":false}') return "";
    return 'expected {"reverse":true}, {"reverse":false} or nothing';
  }

  describe(): ks.Description {
    ks.wantNames();
    const d = new ks.Description("NodeNumber", [ks.Point.PreScore, ks.Point.Score]);
    d.depends = ["pod", "node"];
    d.pod = ["name"];
    return d;
  }

  // preScore: the pod's digit is worked out once, and remembered.
  status(q: ks.Question): ks.Code {
    const digit = lastDigit(q.pod.get("name").text);
    if (digit < 0) return ks.Code.Skip;
    const state = new Uint8Array(1);
    state[0] = <u8>digit;
    q.remember(state);
    return ks.Code.Success;
  }

  score(q: ks.Question, scores: StaticArray<i64>): void {
    const state = q.state;
    const wanted = state.length == 1 ? <i32>state[0] : -1;
    for (let i = 0; i < scores.length; i++) {
      const matches = wanted >= 0 && lastDigit(ks.nodeName(q.rows.at(i))) == wanted;
      if (matches != this.reverse) scores[i] = 10;
    }
  }
}

ks.register(new NodeNumber());

// Prefer nodes by the number in one of their labels, whose key is the configuration.

import * as ks from "../ks";

export * from "../exports";

/** Of a label: decimal digits, at most 18 of them; 0 for anything else. */
function numberOf(text: string): i64 {
  let number: i64 = 0;
  if (text.length > 18) return 0;
  for (let i = 0; i < text.length; i++) {
    const digit = text.charCodeAt(i) - 0x30;
    if (digit < 0 || digit > 9) return 0;
    number = number * 10 + digit;
  }
  return number;
}

class LabelScore extends ks.Plugin {
  private key: string = "example.com/performance";
  private label: ks.Indexed | null = null;

  configure(config: string): string {
    if (config != "") this.key = config;
    return "";
  }

  describe(): ks.Description {
    this.label = ks.wantLabel(this.key);
    const d = new ks.Description("LabelScore", [ks.Point.Score]);
    d.depends = ["node"];
    d.normalize = "default";
    return d;
  }

  score(q: ks.Question, scores: StaticArray<i64>): void {
    const label = this.label!;
    let known = -1; // nodes with equal labels often follow each other
    let number: i64 = 0;
    for (let i = 0; i < scores.length; i++) {
      const index = label.indexOf(q.rows.at(i));
      if (index < 0) continue;
      if (index != known) {
        number = numberOf(label.text(index));
        known = index;
      }
      scores[i] = number;
    }
  }
}

ks.register(new LabelScore());

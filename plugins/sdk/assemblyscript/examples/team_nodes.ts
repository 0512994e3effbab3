// Nodes with a team take pods of that team only; other pods go where no team is. The label's key is the configuration.

import * as ks from "../ks";

export * from "../exports";

class TeamNodes extends ks.Plugin {
  private key: string = "example.com/team";
  private team: ks.Indexed | null = null;

  configure(config: string): string {
    if (String.UTF8.byteLength(config) > 253) return "expected the key of a label, of at most 253 bytes";
    if (config != "") this.key = config;
    return "";
  }

  describe(): ks.Description {
    this.team = ks.wantLabel(this.key);
    const d = new ks.Description("TeamNodes", [ks.Point.Filter]);
    d.depends = ["pod", "node"];
    d.pod = ["labels"];
    return d;
  }

  filter(q: ks.Question, verdicts: StaticArray<u8>): void {
    const team = this.team!;
    const mine = q.podLabel(this.key);
    const other = q.reason(ks.Code.Unresolvable, "node(s) belonged to another team");
    const none = q.reason(ks.Code.Unresolvable, "node(s) did not belong to the pod's team");
    for (let i = 0; i < verdicts.length; i++) {
      const theirs = team.textAt(q.rows.at(i));
      if (mine != theirs) verdicts[i] = theirs === null ? none : other;
    }
  }
}

ks.register(new TeamNodes());

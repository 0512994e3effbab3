// A rack has so many licenses: pods that need one go where one is left, and all pods prefer nodes that have their image.
// How many is the configuration.

import * as ks from "../ks";

export * from "../exports";

const LICENSE = "example.com/license";

class RackLicenses extends ks.Plugin {
  private licenses: i32 = 1;
  private racks: ks.Indexed | null = null;
  private images: ks.Indexed | null = null;
  private onRow: i32[] = []; // row -> licenses that pods there use

  configure(config: string): string {
    if (config == "") return "";
    for (let i = 0; i < config.length; i++) {
      const digit = config.charCodeAt(i);
      if (digit < 48 || digit > 57 || config.length > 9) return "expected the number of licenses of a rack";
    }
    this.licenses = <i32>parseInt(config);
    return "";
  }

  describe(): ks.Description {
    this.racks = ks.wantLabel("example.com/rack");
    this.images = ks.wantImages();
    ks.wantPods();
    const d = new ks.Description("RackLicenses", [ks.Point.Filter, ks.Point.Score]);
    d.pod = ["labels", "containers"];
    return d;
  }

  pods(row: i32, pods: ks.Value): void {
    while (this.onRow.length <= row) this.onRow.push(0);
    let used = 0;
    let pod = pods.first();
    for (let i = 0; i < pods.length; i++, pod = pod.next()) used += i32(pod.get("labels").get(LICENSE).isThere);
    this.onRow[row] = used;
  }

  filter(q: ks.Question, verdicts: StaticArray<u8>): void {
    if (q.podLabel(LICENSE) === null) return;
    const none = q.reason(ks.Code.Unresolvable, "node(s) were in no rack");
    const usedUp = q.reason(ks.Code.Unschedulable, "node(s) had no license left in their rack");
    const racks = this.racks!;
    const inRack = new StaticArray<i32>(racks.known);
    for (let row = 0; row < this.onRow.length; row++) {
      const rack = racks.indexOf(row);
      if (rack >= 0) inRack[rack] += this.onRow[row];
    }
    for (let i = 0; i < verdicts.length; i++) {
      const rack = racks.indexOf(q.rows.at(i));
      verdicts[i] = rack < 0 ? none : inRack[rack] < this.licenses ? 0 : usedUp;
    }
  }

  score(q: ks.Question, scores: StaticArray<i64>): void {
    const images = this.images!;
    const wanted: string[] = [];
    const containers = q.pod.get("containers");
    for (let i = 0; i < containers.length; i++) wanted.push(containers.item(i).item(1).text);
    for (let i = 0; i < scores.length; i++) {
      const index = images.indexOf(q.rows.at(i));
      if (index < 0) continue;
      const list = images.value(index);
      let image = list.first();
      for (let j = 0; j < list.length && scores[i] == 0; j++, image = image.next()) {
        if (wanted.includes(image.item(0).text)) scores[i] = 100;
      }
    }
  }
}

ks.register(new RackLicenses());

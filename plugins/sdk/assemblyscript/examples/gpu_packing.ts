// Fill up nodes with GPUs before others are begun, and keep pods without GPUs away from them.

import * as ks from "../ks";

export * from "../exports";

function scoreOf(has: i64, taken: i64, wanted: i64): i64 {
  const full = taken + wanted;
  if (wanted == 0) return has == 0 ? 100 : 0;
  if (has <= 0) return 0;
  return full >= has ? 100 : (full * 100) / has;
}

class GpuPacking extends ks.Plugin {
  private resource: string = "nvidia.com/gpu";
  private allocatable: ks.Numbers | null = null;
  private used: ks.Numbers | null = null;

  configure(config: string): string {
    if (config != "") this.resource = config;
    return "";
  }

  describe(): ks.Description {
    this.allocatable = ks.wantAllocatable(this.resource);
    this.used = ks.wantUsed(this.resource);
    const d = new ks.Description("GpuPacking", [ks.Point.Score]);
    d.depends = ["pod", "node", "usage"];
    d.pod = ["requests"];
    return d;
  }

  score(q: ks.Question, scores: StaticArray<i64>): void {
    const has = this.allocatable!.values;
    const taken = this.used!.values;
    const wanted = q.podRequest(this.resource);
    for (let i = 0; i < scores.length; i++) {
      const row = q.rows.at(i);
      scores[i] = scoreOf(has[row], taken[row], wanted);
    }
  }
}

ks.register(new GpuPacking());

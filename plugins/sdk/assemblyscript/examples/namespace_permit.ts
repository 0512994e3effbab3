// Let pods of some namespaces pass, named in the configuration with commas between; the others are turned down.

import * as ks from "../ks";

export * from "../exports";

class NamespacePermit extends ks.Plugin {
  private allowed: string[] = [];

  configure(config: string): string {
    this.allowed = config.split(",");
    return "";
  }

  describe(): ks.Description {
    const d = new ks.Description("NamespacePermit", [ks.Point.Permit]);
    d.pod = ["namespace"];
    return d;
  }

  status(q: ks.Question): ks.Code {
    if (this.allowed.includes(q.pod.get("namespace").text)) return ks.Code.Success;
    ks.event(true, "NotPermitted", "the pod's namespace may not use this cluster");
    q.say("the pod's namespace may not use this cluster");
    return ks.Code.Unschedulable;
  }
}

ks.register(new NamespacePermit());

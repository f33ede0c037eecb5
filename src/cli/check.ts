import { Command } from 'commander';
import type { App } from '../app.ts';
import { checkResource, type Finding } from '../sync/check-resource.ts';
import type { CliContext } from './context.ts';
import { EXIT_CODES } from './exit-code.ts';
import { chosenResources, forEachSource, withSourceOptions, type SourceOptions } from './open-sources.ts';

interface ResourceCheck {
  resource: string;
  findings: Finding[];
}

interface CheckReport {
  source: string;
  resources: ResourceCheck[];
  /** What the answers said of the service's limits. */
  limits: Finding;
}

const MARKS: Readonly<Record<Finding['status'], string>> = { ok: 'ok  ', warn: 'warn', fail: 'FAIL' };

/** `content-sync check`: is the service what the profile says it is? Exit code 1 where it is not. */
export function checkCommand(context: CliContext): Command {
  return withSourceOptions(new Command('check'))
    .description('test the config, the credential and what the profile assumes against the live service; writes no rows')
    .argument('[resource...]', 'only these resources of the profile')
    .option('--json', 'print one JSON object per source')
    .action(async (names: string[], options: SourceOptions & { json?: true }) => {
      const reports = await forEachSource(context, options, async ({ app }) => {
        const report = await checkSource(app, chosenResources(app.source, names), context);
        context.stdout.write(options.json === true ? `${JSON.stringify(report)}\n` : textOf(report));
        return report;
      });
      const findings = reports.flatMap((report) => report.resources.flatMap((each) => each.findings));
      context.exit(findings.some((finding) => finding.status === 'fail') ? EXIT_CODES.failed : EXIT_CODES.ok);
    });
}

async function checkSource(app: App, resources: readonly string[], context: CliContext): Promise<CheckReport> {
  const checks: ResourceCheck[] = [];
  for (const resource of resources) {
    const profile = app.source.profile.resources[resource];
    if (profile === undefined) continue;
    const { listing, client } = app;
    const { clock, signal } = context;
    checks.push({ resource, findings: await checkResource({ resource, profile, listing, client, clock, signal }) });
  }
  return { source: app.source.name, resources: checks, limits: limitsFinding(app) };
}

function limitsFinding(app: App): Finding {
  const { allowedPerSecond } = app.governor.figures();
  const share = Math.round(app.source.rate.share * 100);
  if (allowedPerSecond !== null) {
    return { check: 'limits', status: 'ok', detail: `about ${allowedPerSecond.toFixed(1)} requests/s, of which ${share}% are used` };
  }
  return {
    check: 'limits',
    status: 'ok',
    detail: 'the answers tell no limit; the pace is learned from how the service answers',
    hint: 'if you know the limit, set rate.requests_per_second',
  };
}

function textOf(report: CheckReport): string {
  const groups = [...report.resources, { resource: 'service', findings: [report.limits] }];
  const lines = groups.flatMap(({ resource, findings }) =>
    findings.flatMap(({ check, status, detail, hint }) => [
      `  ${MARKS[status]}  ${resource} ${check}: ${detail}`,
      ...(hint === undefined ? [] : [`        → ${hint}`]),
    ]),
  );
  return `${report.source}\n${lines.join('\n')}\n`;
}

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { packageRoot } from '../../../src/config/load-profile.ts';
import { parseMetrics } from '../../observe/prometheus-text.ts';
import { SQLITE } from '../../support/databases.ts';
import { onFileFinished } from '../../support/file-finished.ts';
import { eventBody, openServingStage, until, type ServingStage } from '../../support/serving.ts';

interface Rule {
  alert: string;
  expr: string;
  for: string;
  labels: { severity: string };
  annotations: { summary: string; description: string };
}

interface Dashboard {
  panels: {
    id: number;
    title: string;
    gridPos: { x: number; w: number };
    targets: { expr: string; legendFormat: string }[];
  }[];
}

const PATIENCE = 60_000;
let stage: ServingStage;
/** Labels of each name that a sample of a real `/metrics` has; a histogram also by the name of its family. */
const labels = new Map<string, Set<string>>();
/** Names and types of its families. */
const families = new Set<string>();

beforeAll(async () => {
  stage = await openServingStage({
    database: SQLITE,
    sandbox: { generate: { content: 30, images: 3, analytics: 30 } },
  });
  onFileFinished(() => stage.close());
  const serving = await stage.serve({ isInside: true });
  await stage.fresh(serving);
  await serving.deliver({ id: 'one', body: eventBody({ resource: 'content', id: 'new' }) });
  await until('delivered', async () => (await serving.page('/metrics')).body.includes('webhook_delay_seconds_bucket{'));
  const found = parseMetrics((await serving.page('/metrics')).body);
  for (const [name, { samples }] of found) {
    families.add(name);
    for (const sample of samples)
      labels.set(sample.name, new Set([...Object.keys(sample.labels), ...(labels.get(sample.name) ?? [])]));
  }
  await serving.stop('SIGKILL');
}, PATIENCE);

const inFolder = (name: string): string => path.join(packageRoot(), 'config/deploy/monitoring', name);
const read = (name: string): string => readFileSync(inFolder(name), 'utf8');
const rulesOf = (): Rule[] =>
  parse(read('content-sync.rules.yml')).groups.flatMap((group: { rules: Rule[] }) => group.rules);
const dashboardOf = (): Dashboard => JSON.parse(read('content-sync-dashboard.json'));

/** Words of PromQL that are no metrics. */
const WORDS = new Set('sum by rate increase histogram_quantile time up label_values'.split(' '));
/** Labels that Prometheus adds. */
const OF_PROMETHEUS = new Set(['job', 'instance']);
/** Metrics that have a series only once something has happened, with their labels. */
const NOT_YET: Readonly<Record<string, readonly string[]>> = {
  content_sync_limit_requests_per_second: ['source'],
  content_sync_rejects: ['source', 'resource', 'reason'],
  content_sync_alert_messages_total: ['channel', 'result'],
  content_sync_files: ['source', 'resource', 'status'],
  content_sync_files_stopped: ['source'],
};

/** What an expression, and the texts beside it, name that `/metrics` does not have. */
function unknownIn(expr: string, ...texts: readonly string[]): string[] {
  const bare = expr.replaceAll(/"[^"]*"/g, '""').replaceAll(/\[[^\]]*\]/g, '');
  const selected = [...bare.matchAll(/\{([^}]*)\}/g)].flatMap(
    ([, inner = '']) => inner.match(/[a-z_]+(?=\s*[=!])/g) ?? [],
  );
  const grouped = [...bare.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, inner = '']) => inner.split(/,\s*/));
  const shown = texts.flatMap((text) =>
    Array.from(text.matchAll(/\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}/g), ([, name = '']) => name),
  );
  const outside = bare.replaceAll(/\{[^}]*\}/g, '').replaceAll(/\bby \([^)]*\)/g, '');
  const metrics = (outside.match(/[a-z_][a-z0-9_]*/g) ?? []).filter((word) => !WORDS.has(word));
  const known = new Set(metrics.flatMap((name) => [...(labels.get(name) ?? NOT_YET[name] ?? [])]));
  return [
    ...metrics.filter((name) => !isMetric(name)),
    ...[...selected, ...grouped, ...shown].filter((label) => !known.has(label) && !OF_PROMETHEUS.has(label)),
  ];
}

function isMetric(name: string): boolean {
  return labels.has(name) || (families.has(name) && Object.hasOwn(NOT_YET, name));
}

describe('the files for monitoring', () => {
  it('have rules whose every metric and label a running serve has', () => {
    const rules = rulesOf();
    expect(rules.length).toBeGreaterThan(10);
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
    const unknown = rules.flatMap(({ expr, annotations: { summary, description } }) =>
      unknownIn(expr, summary, description),
    );
    expect(unknown).toEqual([]);
    for (const rule of rules) {
      expect(rule.for).toMatch(/^\d+m$/);
      expect(rule.labels.severity).toMatch(/^(critical|warning)$/);
      expect(rule.annotations.description).not.toBe('');
    }
    expect(unknownIn('sum by (nobody) (content_sync_nothing{source="x", wrong="y"})')).toEqual([
      'content_sync_nothing',
      'source',
      'wrong',
      'nobody',
    ]);
  });

  it('have a dashboard that Grafana can import, of metrics that there are', () => {
    const { panels } = dashboardOf();
    const targets = panels.flatMap((panel) => panel.targets);
    expect(targets.flatMap(({ expr, legendFormat }) => unknownIn(expr, legendFormat))).toEqual([]);
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    for (const { gridPos } of panels) expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
  });

  it('pass promtool', ({ skip }) => {
    const said = spawnSync('promtool', ['check', 'rules', inFolder('content-sync.rules.yml')], { encoding: 'utf8' });
    skip(
      said.error !== undefined,
      'promtool is not installed: metrics and labels of every rule were looked up instead',
    );
    expect(`${said.stdout}${said.stderr}`).toContain('SUCCESS');
    const scrape = spawnSync('promtool', ['check', 'config', inFolder('scrape.yml')], { encoding: 'utf8' });
    expect(scrape.status).toBe(0);
  });

  it('name the usual ports to scrape', () => {
    expect(parse(read('scrape.yml')).scrape_configs).toMatchObject([
      { job_name: 'content-sync', static_configs: [{ targets: ['localhost:8080'] }] },
      { job_name: 'content-sync-worker', static_configs: [{ targets: ['localhost:8081'] }] },
    ]);
  });
});

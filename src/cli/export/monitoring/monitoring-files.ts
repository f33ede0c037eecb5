import { stringify } from 'yaml';
import type { Settings } from '../../../settings/settings.ts';
import { ALERT_RULES } from './alert-rules.ts';
import { dashboard } from './dashboard.ts';

const README = `# Monitoring of content-sync

- \`content-sync.rules.yml\`: alerting rules; put its path under \`rule_files\` of Prometheus.
- \`scrape.yml\`: the jobs to scrape, for \`scrape_configs\`; set the addresses under which Prometheus reaches the processes.
- \`content-sync-dashboard.json\`: a dashboard to import into Grafana.

Files that you change are left alone by the next export; \`--force\` writes them over.
`;

/** All files by their names in the folder. */
export function monitoringFiles(settings: Pick<Settings, 'serve' | 'worker'>): Map<string, string> {
  return new Map([
    ['content-sync.rules.yml', written({ groups: [{ name: 'content-sync', rules: ALERT_RULES.map(ruleOf) }] })],
    ['scrape.yml', written(scrapeConfig(settings))],
    ['content-sync-dashboard.json', `${JSON.stringify(dashboard(), null, 2)}\n`],
    ['README.md', README],
  ]);
}

function written(value: object): string {
  return stringify(value, { lineWidth: 0 });
}

function ruleOf({ alert, expr, for: wait, severity, summary, description }: (typeof ALERT_RULES)[number]): object {
  return { alert, expr, for: wait, labels: { severity }, annotations: { summary, description } };
}

/** Passwords are not written: Prometheus reads them from files of its own. */
function scrapeConfig({ serve, worker }: Pick<Settings, 'serve' | 'worker'>): object {
  const { auth } = serve;
  const access =
    auth === undefined
      ? {}
      : { basic_auth: { username: auth.user, password_file: '/etc/prometheus/content-sync-password' } };
  const job = (name: string, host: string, port: number): object => ({
    job_name: name,
    scrape_interval: '30s',
    ...access,
    static_configs: [{ targets: [`${targetOf(host)}:${port}`] }],
  });
  const workers = worker.port === null ? [] : [job('content-sync-worker', worker.host, worker.port)];
  return { scrape_configs: [job('content-sync', serve.host, serve.port), ...workers] };
}

/** An address that takes requests from everywhere is one to listen on, and none to ask. */
function targetOf(host: string): string {
  if (host === '0.0.0.0' || host === '::') return 'localhost';
  return host.includes(':') ? `[${host}]` : host;
}

// What a dashboard of gb10-exporter may be: Grafana's published types, with each panel's options and
// custom field options in their places.
import type * as D from '@grafana/schema/dist/types/raw/dashboard/x/types.gen';
import type { DataQuery } from '@grafana/schema/dist/types/common/common.gen';
import type * as TimeSeries from '@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/types.gen';
import type * as Stat from '@grafana/schema/dist/types/raw/composable/stat/panelcfg/x/types.gen';
import type * as Table from '@grafana/schema/dist/types/raw/composable/table/panelcfg/x/types.gen';
import type * as States from '@grafana/schema/dist/types/raw/composable/statetimeline/panelcfg/x/types.gen';

// The data source of Prometheus publishes no types; these are the fields that its editor writes.
type Query = DataQuery & {
  expr: string; legendFormat: string; format: "time_series" | "table"; instant: boolean; range: boolean; editorMode: "code";
};
type Field<Custom> = Omit<D.FieldConfig, 'custom'> & { custom?: Custom };
type Source<Custom> = Omit<D.FieldConfigSource, 'defaults'> & { defaults: Field<Custom> };
type Of<Type extends string, Options, Custom> = Omit<D.Panel, 'type' | 'options' | 'fieldConfig' | 'targets'> & {
  type: Type; options: Options; fieldConfig: Source<Custom>; targets: Query[];
};
// An annotation of Prometheus has these on top of what all annotations have.
type Annotation = D.AnnotationQuery & { expr: string; step: string; titleFormat: string; textFormat: string };
export type Dashboard = Omit<D.Dashboard, 'panels' | 'annotations'> & {
  annotations: { list: Annotation[] };
  panels: Array<
    D.RowPanel | Of<'timeseries', TimeSeries.Options, TimeSeries.FieldConfig> | Of<'stat', Stat.Options, {}>
    | Of<'table', Table.Options, Partial<Table.FieldConfig>> | Of<'state-timeline', States.Options, States.FieldConfig>>;
};

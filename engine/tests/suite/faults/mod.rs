//! The fault table of the project, `tests/faults.toml`, staged in Rust: a scenario for every row, by name. Each checks
//! that the error is the one of the row and that the program's memory has not changed. Earlier revisions must come back
//! bit for bit, and the job must be able to go on when the fault is gone.

mod arguments;
mod damage;
mod device;
mod failing;
mod flips;
mod following;
mod job;
mod memory;
mod opening;
mod outputs;
mod returning;
mod settings;
mod table;
mod together;

/// A test for each scenario, and the list of their names to compare with the table.
macro_rules! scenarios {
    ($($module:ident: $($name:ident)*;)*) => {
        const SCENARIOS: &[&str] = &[$($(stringify!($name),)*)*];
        $($(
            #[test]
            fn $name() {
                $module::$name(&job::Scene::of(stringify!($name)));
            }
        )*)*
    };
}

scenarios! {
    opening: path_is_a_file path_is_empty layout_is_foreign newer_version newer_version_or_damage unknown_feature
        header_cut_short header_changed portion_table_changed rank_in_two_files hostile_portion_table hostile_header made_by_another_user lineage_conflict
        layout_file_out_of_sight in_use_by_this_program in_use_by_a_half_dead_job lock_read_by_another layout_of_an_odd_name shm_is_full mark_cleared_away
        io_error_at_open;
    arguments: option_out_of_range name_odd name_empty name_long name_leaves_its_folder name_twice
        memory_of_another name_unknown
        settled_unknown settled_outside shape_overflows too_many_dimensions box_outside level_unknown;
    together: calls_differ closed_beside_a_call not_restored level_not_there levels_differ;
    memory: memory_allocated_twice memory_at_a_taken_address memory_never_allocated writes_untold;
    following: move_unknown move_of_another_type follow_elsewhere pointer_null pointer_null_at_restore
        pointers_to_the_same;
    outputs: output_shorter output_is_no_file;
    settings: time_out_of_range setting_unknown setting_ill_typed settings_no_toml settings_no_file
        settings_file_missing variable_out_of_range variable_misspelt levels_in_one_directory settings_differ;
    failing: portion_too_small first_shard_too_large disk_full_at_layout disk_full_at_write disk_full_at_root io_error_at_write io_error_without_pool
        io_error_of_node io_error_of_rank disk_full_of_node disk_full_of_rank
        io_error_not_asked_for io_error_told_at_close io_error_told_by_poll sync_fails sync_failed_before short_writes
        short_reads io_error_at_read io_error_passes_at_read io_error_of_newest disk_full_at_close late_writer;
    damage: file_cut_short both_slots_destroyed slot_changed catalogue_changed manifest_changed hashes_changed
        data_changed frame_changed all_data_changed hostile_slot hostile_catalogue hostile_manifest;
    returning: region_of_another_size region_of_another_type region_of_another_shape region_not_protected
        region_not_saved more_ranks fewer_ranks box_not_saved global_array_of_another_shape reader_of_no_revision
        shard_out_of_sight globals_of_another_program left_out_too_late;
}

#[test]
fn every_row_has_a_scenario_and_every_scenario_a_row() {
    let rows = table::rows();
    let mut here: Vec<&str> = rows.iter().filter(|row| row.rust > 0).map(|row| row.name.as_str()).collect();
    let mut scenarios = SCENARIOS.to_vec();
    here.sort_unstable();
    scenarios.sort_unstable();
    assert_eq!(here, scenarios, "the rows of the table, and the scenarios here");
}

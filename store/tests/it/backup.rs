use crate::support::{ask, engine};
use crate::support_rows::{insert, now, samples};

#[tokio::test]
async fn a_backup_is_restored_into_another_engine_without_its_tokens() {
    let (Some(engine), Some(other)) = (engine().await, engine().await) else {
        return;
    };
    let store = engine.migrated().await;
    let now = now();
    insert(&store, &samples(0..2_000), 0, now, "a")
        .await
        .unwrap();
    let all = "SELECT sum(cityHash64(*)), count() FROM samples";
    let before = ask(&store, all).await;
    ask(&store, "BACKUP DATABASE memwide TO File('monday')").await;
    insert(&store, &samples(2_000..2_500), 0, now, "b")
        .await
        .unwrap();
    let backups = other.data().join("backups");
    std::fs::create_dir_all(&backups).unwrap();
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .args([engine.data().join("backups/monday"), backups])
        .status();
    assert!(copied.unwrap().success());
    let restored = other.child.store("memwide").unwrap();
    restored.create_database().await.unwrap();
    ask(&restored, "RESTORE DATABASE memwide FROM File('monday')").await;
    assert_eq!(ask(&restored, all).await, before);
    assert!(restored.migrate().await.unwrap().is_empty());
    // Why backups are taken between two blocks of a sink (docs/keeping.md): a block repeated after this would be there twice.
    insert(&restored, &samples(0..2_000), 0, now, "a")
        .await
        .unwrap();
    let doubled = ask(&restored, "SELECT count() FROM samples").await;
    assert_eq!(doubled, "4000");
}
